"""`holdfast run`: queue a prompt, make sure that a worker runs, and follow the task."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from holdfast import errors
from holdfast.cli import background, common, output
from holdfast.cli import send as sending
from holdfast.cli.common import current_user
from holdfast.cli.render import EventRenderer
from holdfast.cli.summary import summary
from holdfast.store import json_views, reads
from holdfast.store.readonly import StoreWatcher, ask

if TYPE_CHECKING:
    from holdfast.home import Home
    from holdfast.store.location import Location
    from holdfast.store.sql import Row, Sql

AGAIN_S = 2.0  # a second Ctrl-C within this time cancels
ENDED: dict[str, type[errors.HoldfastError]] = {
    "failed": errors.TaskFailed,
    "cancelled": errors.TaskCancelled,
    "interrupted": errors.TaskInterrupted,
}


def parser(name: str) -> argparse.ArgumentParser:
    """What to run, where and how."""
    parser = common.parser(
        name, "Run a prompt and follow it. Ctrl-C detaches, a second Ctrl-C cancels the task."
    )
    parser.add_argument("-a", "--agent", help="claude, codex, … (default: [run] agent, or the only one)")
    parser.add_argument("--session", metavar="ID", help="continue this session; refused if that is not safe")
    parser.add_argument("--key", help="your name for the thread; continued if safe, else started fresh")
    parser.add_argument(
        "--fork", action="store_true", help="prefer a copy to a fresh start, if both are possible"
    )
    parser.add_argument("--cwd", metavar="DIR", help="the folder to work in (default: the current one)")
    parser.add_argument("--worktree", action="store_true", help="work in a separate git worktree and branch")
    sending.add_options(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    """Queue it and follow it to its end; the exit status tells how it ended."""
    common.check_utf8(
        "the folder", os.path.abspath(options.cwd) if options.cwd else sending.current_folder() or ""
    )
    return sending.send(
        options,
        agent=options.agent,
        session=options.session,
        key=options.key,
        fork=options.fork,
        cwd=os.path.abspath(options.cwd) if options.cwd else None,
        worktree=options.worktree,
    )


def follow(home: Home, location: Location, session: str, task: str, as_json: bool) -> int:
    """Print the events of a task until it ends; Ctrl-C leaves it running."""
    if not as_json:
        output.note(f"task {task} of session {session}")
    try:
        ended = _follow(home, location, session, task, as_json)
    except KeyboardInterrupt:
        return _detach(home, location, session, task)
    outcome = ended["outcome"] or {}
    if moved := outcome.get("moved_to"):
        return follow(home, location, moved["session"], moved["task"], as_json)
    if not as_json:
        output.note(summary(ended, ask(home, location, lambda sql: reads.session(sql, session))))
    if ended["status"] == "succeeded":
        return 0
    stderr = str(outcome.get("stderr") or "").strip()
    if stderr and not as_json:
        output.note("\n".join(f"  {line}" for line in stderr.splitlines()[-20:]))
    hint = outcome.get("hint") or f"`holdfast log {session}` shows all events"
    raise ENDED[ended["status"]](
        f"task {task} {ended['status']}: {ended['reason']}", hint=hint, task=task, session=session
    )


def _follow(home: Home, location: Location, session: str, task: str, as_json: bool) -> dict[str, Any]:
    renderer = EventRenderer()
    watchdog = background.WorkerWatchdog(home, location, current_user())
    after = 0

    async def page(sql: Sql) -> tuple[list[Row], dict[str, Any], str]:
        state = (await reads.session_row(sql, session))["state"]
        return await reads.log(sql, session, after), await reads.task(sql, task), state

    with StoreWatcher(home, location) as watcher:
        while True:
            rows, now, state = watcher.ask(page)
            for row in rows:
                after = row[0]
                if row[3] != task:
                    continue
                if as_json:
                    output.json_text(json_views.event_json(row))
                elif (shown := renderer.followed(row)) is not None:
                    output.styled(shown)
            sys.stdout.flush()
            if not rows and now["status"] in ("succeeded", *ENDED):
                return now
            if not rows:
                if now["status"] in ("queued", "waiting") and state != "live":
                    raise errors.IllegalChange(
                        f"session {session} is {state}; its prompt waits there", task=task
                    )
                watchdog.check()
                watcher.wait()


def _detach(home: Home, location: Location, session: str, task: str) -> int:
    output.note(
        f"\ndetached; the task continues. `holdfast log -f {session}` follows it, Ctrl-C again cancels it"
    )
    try:
        time.sleep(AGAIN_S)
    except KeyboardInterrupt:
        from holdfast.cli.commands.cancel import cancel

        cancel(home, location, task, current_user())
        output.note(f"task {task} is stopping")
    return 130
