"""`holdfast show`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from holdfast.cli import common, output, render
from holdfast.store import reads
from holdfast.store.readonly import ask

if TYPE_CHECKING:
    from holdfast.home import Home
    from holdfast.store.location import Location
    from holdfast.store.sql import Sql

LATEST = 1000  # tasks in the JSON; the header counts all of them
SHOWN = 100  # tasks that are printed
FIELDS = ("id", "title", "agent", "key", "state", "cwd", "host", "created_at", "updated_at", "events")


def parser(name: str) -> argparse.ArgumentParser:
    """Which session."""
    parser = common.parser(name, "Show one session: header, tokens, tasks and verdict.")
    parser.add_argument("session", metavar="ID", help="an id, a unique prefix of it, or a key")
    return parser


def run(options: argparse.Namespace) -> int:
    """Print header, tokens and tasks."""
    home, location = common.home_and_location(options)

    async def question(sql: Sql) -> dict[str, Any]:
        session = await reads.resolve(sql, options.session)
        asked = [one for one in await reads.asked(sql) if one["session"] == session]
        tasks = (await reads.latest_tasks(sql, session=session, limit=LATEST))[::-1]
        return {
            "session": await reads.session(sql, session),
            "tokens": await reads.tokens(sql, session),
            "tasks": [{**t, "asks": [a["body"] for a in asked if a["task"] == t["id"]]} for t in tasks],
        }

    found = ask(home, location, question)
    if options.json:
        output.json_line(found)
    else:
        _print(found["session"], found["tokens"], found["tasks"])
        _print_verdict(home, location, found["session"])
    return 0


def _print_verdict(home: Home, location: Location, session: dict[str, Any]) -> None:
    """Whether the next prompt would resume it; only for people, because it is slow."""
    if session["state"] == "deleted" or not session["tasks"]:
        return
    import asyncio

    from holdfast.cli.commands.verdict import verdict

    found = asyncio.run(verdict(home, location, session["id"]))
    for reason in found.reasons:
        output.text(f"{'verdict':<13} {found.action}: {output.plain(reason.text)}")


def _print(session: dict[str, Any], tokens: list[Any], tasks: list[Any]) -> None:
    lines = [(name, session[name]) for name in FIELDS]
    if session["archive"]:
        note = session["archive"]
        lines.append(("archived", f"{note['at']} by {note['by']}: {note['reason']}"))
    if session["deletion"]:
        note = session["deletion"]
        lines.append(("deleted", f"{note['at']} by {note['by']}: {note['reason']}"))
    if session["worktree"]:
        lines.append(("worktree", f"{session['worktree']['path']} ({session['worktree']['branch']})"))
    if session["link"]:
        lines.append(("continues", f"{session['link']['session']} ({session['link']['relation']})"))
    if session["metadata_problem"]:
        lines.append(("metadata", f"CANNOT BE READ: {session['metadata_problem']}"))
    elif session["metadata"]:
        lines.append(("metadata", f"{session['metadata']} (version {session['version']})"))
    for name, value in lines:
        if value is not None:
            output.text(f"{name.replace('_', ' '):<13} {output.plain(value)}")
    for token in tokens:
        protocol = f" over {token['protocol']}" if token["protocol"] else ""
        why = f": {token['reason']}" if token["reason"] else ""
        shown = f"{token['native_id']} ({token['agent']}{protocol}, {token['status']}{why})"
        output.text(f"{'token':<13} {output.plain(shown)}")
    left_out = session["tasks"] - len(tasks[-SHOWN:])
    if left_out > 0:
        more = f"{left_out} earlier tasks; `holdfast tasks --session {session['id']} -n {session['tasks']}`"
        output.text(f"{'task':<13} {more} lists all")
    for task in tasks[-SHOWN:]:
        status = "asking" if task["asks"] else task["status"]
        shown = f"{task['id']} {status}, prompt {task['delivery']}: {task['prompt']}"
        output.text(f"{'task':<13} {output.plain(shown)[:200]}")
        for body in task["asks"]:
            how = f"`holdfast answer {task['id']} allow` or `deny`"
            output.text(f"{'asks':<13} {output.plain(render.call_text(body))[:200]} ({how})")
        if task["waiting_for"]:
            output.text(f"{'waits':<13} {output.plain(render.waiting_text(task))}")
