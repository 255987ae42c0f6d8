"""`holdfast ls`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from holdfast.cli import common, output, render
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
    parser.add_argument("-n", "--limit", type=int, default=50, help="how many (default: 50)")
    parser.add_argument("--before", metavar="CURSOR", help="the page after this cursor")
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the list."""
    home, location = common.home_and_location(options)

    async def question(sql: Sql) -> tuple[list[dict[str, Any]], str | None, list[dict[str, Any]]]:
        asking = {asked["session"] for asked in await reads.asked(sql)}
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
        return [{**s, "asks": s["id"] in asking} for s in found], more, waiting

    found, next_page, waiting = ask(home, location, question)
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
                "waiting for permission" if s["asks"] else s["last_status"] or "-",
                output.ago(s["updated_at"]),
                s["events"],
                s["key"] or "-",
                s["title"] or "-",
            )
            for s in found
        ],
    )
    listed = {s["id"] for s in found}
    for task in reversed(waiting):
        if task["session"] in listed:
            output.text(f"{task['session']} waits: {output.plain(render.waiting_text(task))}")
    if next_page:
        output.text(f"more: holdfast ls --before {next_page}")
    return 0
