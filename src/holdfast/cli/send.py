"""Prompts on their way to a worker, as `run`, `resume` and `redispatch` send them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast import ids
from holdfast.cli import background, common, output
from holdfast.cli.common import current_user
from holdfast.client.discovery import find_hub
from holdfast.errors import HubGone, StoreBusy

if TYPE_CHECKING:
    from holdfast.client.client import HubClient
    from holdfast.home import Home
    from holdfast.store.location import Location

if TYPE_CHECKING:
    from holdfast.client.client import HubClient

T = TypeVar("T")


def via_hub(home: Home, location: Location, call: Callable[[HubClient], T], instead: Callable[[], T]) -> T:
    """What the hub answers; where none runs, or it goes while we ask, what is done `instead`.

    It may have heard us before it went, so both must be fit to be done after the other.
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


# --- Prompts on their way to a worker, as `run`, `resume` and `redispatch` send them.


def add_options(parser: argparse.ArgumentParser) -> None:
    """What every prompt can be sent with."""
    parser.add_argument("prompt", metavar="PROMPT", help="what to do; - reads it from standard input")
    parser.add_argument("--permissions", choices=("ask", "allow", "deny"), help="what it may do (ask)")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop it after so long")
    parser.add_argument(
        "--leftovers",
        choices=("wait", "end", "ignore"),
        help="what to do about leftover processes of a dead run (as configured: wait)",
    )
    parser.add_argument(
        "--queue", action="store_true", help="wait behind what runs there; else it is refused"
    )
    parser.add_argument(
        "--no-brief", action="store_true", help="do not tell a fresh run of the one cut short"
    )
    parser.add_argument("--detach", action="store_true", help="do not follow it")
    parser.add_argument("--no-hub", action="store_true", help="in this environment, also where a hub runs")


def send(options: argparse.Namespace, **wish: Any) -> int:
    """Queue it and follow it to its end; the exit status tells how it ended."""
    from holdfast.cli.commands.run import follow

    home, location = common.home_and_location(options)
    wish |= {
        "prompt": sys.stdin.read() if options.prompt == "-" else options.prompt,
        "permissions": options.permissions,
        "time_limit_s": options.time_limit,
        "leftovers": options.leftovers,
        "queue": options.queue,
        "brief": not options.no_brief,
        "task": ids.new(ids.TASK),  # whoever hears of it twice knows it by this
    }

    def here() -> dict[str, Any]:
        return background.start(home, location, {"wish": "prompt", **wish}, current_user())

    dispatched = here() if options.no_hub else via_hub(home, location, lambda hub: _over(hub, wish), here)
    task, session = dispatched["task"], dispatched["session"]
    if not options.detach:
        return follow(home, location, session, task, options.json)
    if options.json:
        output.json_line(dispatched)
    else:
        output.text(f"task {task} of session {session}; `holdfast log -f {session}` follows it")
    return 0


def _over(hub: HubClient, wish: dict[str, Any]) -> dict[str, Any]:
    """Hand a wish over to the hub, which is somewhere else."""
    how = wish.get("how")
    if how is not None:
        return {**hub.resume(**wish)}
    return {**hub.dispatch(**{k: v for k, v in wish.items() if k != "how"}, here=current_folder())}


def current_folder() -> str | None:
    """The folder that the command was given in; None if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None
