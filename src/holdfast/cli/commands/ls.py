"""`holdfast ls`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from holdfast.cli import arguments, common, output, render
from holdfast.errors import StoreMissing
from holdfast.store import reads
from holdfast.store.readonly import ask

if TYPE_CHECKING:
    from holdfast.store.sql import Sql

STATES = ("present", "live", "archived", "deleted", "all")


def parser(name: str) -> argparse.ArgumentParser:
    """The filters."""
    parser = common.parser(name, "List sessions, the latest first.")
    parser.add_argument(
        "--state", choices=STATES, default="present", help="present (default): all but deleted"
    )
    parser.add_argument("-a", "--agent", default="", help="only sessions of this agent")
    parser.add_argument("--key", default="", help="only sessions with this key")
    parser.add_argument(
        "-q",
        "--text",
        default="",
        help="only sessions with this text in title, key, cwd, branch, agent or id",
    )
    parser.add_argument("--empty", action="store_true", help="include empty sessions")
    parser.add_argument(
        "-n", "--limit", type=arguments.whole_number, default=50, help="how many (default: 50)"
    )
    parser.add_argument("--before", metavar="CURSOR", help="the page after this cursor")
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the list."""
    home, location = common.home_and_location(options)

    async def question(sql: Sql) -> tuple[list[dict[str, Any]], str | None, list[dict[str, Any]]]:
        asking = {asked["session"] for asked in await reads.asked(sql)}
        open_tasks: dict[str, list[str]] = {}
        for turn in await reads.turns(sql):
            open_tasks.setdefault(turn["session"], []).append(turn["status"])
        found, more = await reads.sessions(
            sql,
            state=options.state,
            agent=options.agent,
            key=options.key,
            text=options.text,
            empty=options.empty,
            before=options.before,
            limit=max(1, options.limit),
        )
        waiting = await reads.latest_tasks(sql, status="waiting", limit=reads.PAGE)
        shown = [
            {**s, "asks": s["id"] in asking, **_activity(s, s["id"] in asking, open_tasks.get(s["id"], []))}
            for s in found
        ]
        return shown, more, waiting

    try:
        found, next_page, waiting = ask(home, location, question)
    except StoreMissing as missing:
        return common.begin("no sessions", missing, options)
    if options.json:
        output.json_line(found)
        return 0
    if not found:
        output.text("no sessions" + ("" if options.empty else " (--empty includes empty ones)"))
        return 0
    output.table(
        ("ID", "AGENT", "STATE", "TASK", "WHEN", "EVENTS", "KEY", "TITLE"),
        [
            (
                s["id"],
                s["agent"],
                s["state"],
                _task_text(s),
                output.ago(s["updated_at"]),
                s["events"],
                s["key"] or "-",
                output.shortened(s["title"], 80) if s["title"] else "-",
            )
            for s in found
        ],
        drop=("EVENTS", "STATE", "AGENT"),
    )
    listed = {s["id"] for s in found}
    for task in reversed(waiting):
        if task["session"] in listed:
            output.text(f"{task['session']} waits: {output.plain(render.waiting_text(task))}")
    if next_page:
        output.text(f"more: holdfast ls --before {next_page}")
    return 0


def _activity(session: dict[str, Any], asks: bool, open_tasks: list[str]) -> dict[str, Any]:
    """What the session does now (its last task's status, if nothing), and how many prompts are queued."""
    ranked = ("running", "unreachable", "waiting", "queued")
    now = next((status for status in ranked if status in open_tasks), session["last_status"])
    behind = len(open_tasks) - (1 if now in open_tasks else 0)
    return {"activity": "asking" if asks else now, "queued": behind}


def _task_text(session: dict[str, Any]) -> str:
    shown = "waiting for permission" if session["asks"] else session["activity"] or "-"
    return f"{shown} +{session['queued']} queued" if session["queued"] else shown
