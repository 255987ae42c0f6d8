"""Send a prompt to a worker, through the hub if one runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast import ids
from holdfast.cli import arguments, background, common, output
from holdfast.cli.common import current_user
from holdfast.client.discovery import find_hub
from holdfast.errors import HubGone, StoreBusy

if TYPE_CHECKING:
    from holdfast.client.client import HubClient
    from holdfast.home import Home
    from holdfast.store.location import Location

T = TypeVar("T")


def via_hub(home: Home, location: Location, call: Callable[[HubClient], T], instead: Callable[[], T]) -> T:
    """The hub's answer; if none runs, or it stops meanwhile, the result of `instead`.

    The hub may have received the request before it stopped, so doing both must be safe.
    """
    if find_hub(home, location) is None:
        return instead()
    from holdfast.client.client import HubClient

    hub = HubClient.of(home, location, current_user())
    if hub is None:
        return instead()
    try:
        return call(hub)
    except (HubGone, StoreBusy):
        return instead()


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every prompt."""
    parser.add_argument("prompt", metavar="PROMPT", help="the prompt; - reads it from standard input")
    parser.add_argument(
        "--permissions",
        choices=("ask", "allow", "deny"),
        help="how to answer permission requests (default: ask)",
    )
    parser.add_argument(
        "--time-limit",
        type=arguments.time_limit,
        metavar="TIME",
        help=f"stop the task after this time: seconds, or {arguments.DURATION}",
    )
    parser.add_argument(
        "--leftovers",
        choices=("wait", "end", "ignore"),
        help="what to do about leftover processes of a dead run (default: as configured, or wait)",
    )
    parser.add_argument(
        "--queue",
        action="store_true",
        help="wait until the session is free; without it, a busy session is an error",
    )
    parser.add_argument(
        "--no-brief", action="store_true", help="do not tell a fresh run about the interrupted one"
    )
    parser.add_argument("--detach", action="store_true", help="do not follow the task")
    parser.add_argument("--no-hub", action="store_true", help="run in this environment, even if a hub runs")


def send(options: argparse.Namespace, **wish: Any) -> int:
    """Queue the prompt and follow its task to the end; the exit status says how it ended."""
    from holdfast.cli.commands.run import follow

    home, location = common.home_and_location(options)
    wish |= {
        "prompt": sys.stdin.read() if options.prompt == "-" else options.prompt,
        "permissions": options.permissions,
        "time_limit_s": options.time_limit,
        "leftovers": options.leftovers,
        "queue": options.queue,
        "brief": not options.no_brief,
        "task": ids.new(ids.TASK),  # the same id is never queued twice
    }

    def here() -> dict[str, Any]:
        return background.start(home, location, {"wish": "prompt", **wish}, current_user())

    dispatched = here() if options.no_hub else via_hub(home, location, lambda hub: _over(hub, wish), here)
    task, session = dispatched["task"], dispatched["session"]
    if wish.get("worktree") and not options.json:
        _tell_worktree(home, location, session)
    if not options.detach:
        return follow(home, location, session, task, options.json)
    if options.json:
        output.json_line(dispatched)
    else:
        output.text(f"task {task} of session {session}; `holdfast log -f {session}` follows it")
    return 0


def _tell_worktree(home: Home, location: Location, session: str) -> None:
    """Print where the agent works, and warn if the repository has changes that it does not see."""
    from holdfast.store import reads
    from holdfast.store.readonly import ask

    header = ask(home, location, lambda sql: reads.session(sql, session))
    made = header["worktree"]
    if made is None:
        return
    output.note(f"worktree {output.plain(made['path'])}, branch {output.plain(made['branch'])}")
    folder = header["cwd"]
    if not folder or not os.path.isdir(folder):  # the hub may run on another machine
        return
    import asyncio

    from holdfast.git import worktree

    changes = asyncio.run(worktree.changes(folder))
    if changes is None or changes.problem is not None or changes.clean:
        return
    paths = sorted(changes.paths)
    named = ", ".join(os.path.basename(path) for path in paths[:3]) + (" …" if len(paths) > 3 else "")
    output.note(
        f"holdfast: warning: {output.counted(len(paths), 'uncommitted change')} in {folder} "
        f"({output.plain(named)}): the worktree starts from the last commit and does not have them"
    )


def _over(hub: HubClient, wish: dict[str, Any]) -> dict[str, Any]:
    """Send the request to the hub."""
    how = wish.get("how")
    if how is not None:
        return {**hub.resume(**wish)}
    return {**hub.dispatch(**{k: v for k, v in wish.items() if k != "how"}, here=current_folder())}


def current_folder() -> str | None:
    """The current folder of the command; None if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None
