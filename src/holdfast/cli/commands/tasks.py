"""`holdfast tasks`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from holdfast.cli import arguments, common, output, render
from holdfast.errors import StoreMissing
from holdfast.store import reads
from holdfast.store.readonly import ask

if TYPE_CHECKING:
    from holdfast.store.sql import Sql

STATUSES = (
    "queued",
    "waiting",
    "running",
    "unreachable",
    "succeeded",
    "failed",
    "cancelled",
    "interrupted",
)


def parser(name: str) -> argparse.ArgumentParser:
    """Which tasks."""
    parser = common.parser(name, "List tasks, the latest first.")
    parser.add_argument("--session", metavar="ID", default="", help="only tasks of this session")
    parser.add_argument(
        "--status",
        choices=STATUSES,
        default="",
        metavar="STATUS",
        help=f"only tasks with this status: {', '.join(STATUSES)}",
    )
    parser.add_argument(
        "-n", "--limit", type=arguments.whole_number, default=50, help="how many (default: 50)"
    )
    parser.add_argument(
        "--settle",
        action="store_true",
        help="first start a worker that finishes tasks whose process is gone",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the list."""
    home, location = common.home_and_location(options)
    if options.settle:
        from holdfast.cli import background
        from holdfast.cli.common import current_user

        background.start(home, location, None, current_user())

    async def question(sql: Sql) -> list[dict[str, Any]]:
        session = await reads.resolve(sql, options.session) if options.session else ""
        tasks = await reads.latest_tasks(
            sql, session=session, status=options.status, limit=max(1, options.limit)
        )
        asked = await reads.asked(sql)
        return [{**t, "asks": [a["body"] for a in asked if a["task"] == t["id"]]} for t in tasks]

    try:
        found = ask(home, location, question)
    except StoreMissing as missing:
        return common.begin("no tasks", missing, options)
    if options.json:
        output.json_line(found)
        return 0
    if not found:
        output.text("no tasks")
        return 0
    output.table(
        ("TASK", "SESSION", "STATUS", "DELIVERY", "WHEN", "WHY", "PROMPT"),
        [
            (
                t["id"],
                t["session"],
                "asking" if t["asks"] else t["status"],
                t["delivery"],
                output.ago(t["ended_at"] or t["started_at"] or t["queued_at"]),
                output.shortened(_why(t), 60),
                output.shortened(" ".join(t["prompt"].split()), 200 if output.columns() is None else 60),
            )
            for t in found
        ],
        drop=("DELIVERY", "WHEN"),
    )
    for t in found:
        if t["waiting_for"]:
            output.text(f"{t['id']} waits: {output.plain(render.waiting_text(t))}")
    if asking := [t["id"] for t in found if t["asks"]]:
        output.text(f"{len(asking)} wait for your answer: holdfast answer TASK allow|deny")
    return 0


def _why(task: dict[str, Any]) -> str:
    if task["asks"]:
        return "waiting for permission: " + ", ".join(render.call_text(body) for body in task["asks"])
    return task["reason"] or "-"
