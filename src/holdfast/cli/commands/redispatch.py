"""`holdfast redispatch`: interrupted tasks once more."""

from __future__ import annotations

import argparse

from holdfast.cli import background, common, output, send
from holdfast.cli.common import who
from holdfast.errors import BadInput


def parser(name: str) -> argparse.ArgumentParser:
    """Which tasks."""
    made = common.parser(name, "Run interrupted tasks once more: each once, each by its session's verdict.")
    made.add_argument("--interrupted", action="store_true", help="all that were interrupted")
    made.add_argument("--key", help="only those of this thread")
    made.add_argument(
        "--wait", action="store_true", help="queue also what must wait until its session is free"
    )
    return made


def run(given: argparse.Namespace) -> int:
    """Queue them, and say what became of each."""
    if not given.interrupted:
        raise BadInput("which tasks?", hint="--interrupted")
    home, location = common.place(given)
    made = send.handed(
        home,
        location,
        lambda hub: hub.redispatch(None if given.key is None else [given.key], wait=given.wait),
        lambda: background.start(
            home, location, {"wish": "again", "key": given.key, "wait": given.wait}, who()
        ),
    )
    if given.json:
        output.json_line(made)
        return 0
    for one in made["redispatched"]:
        waits = f"; it waits: {one['waits_for']}" if one.get("waits_for") else ""
        output.text(
            f"task {one['of']} is run again as {one['task']} of session {one['session']}{output.plain(waits)}"
        )
    for one in made["skipped"]:
        hint = f" ({one['hint']})" if one.get("hint") else ""
        output.text(f"task {one['task']} is not run again: {output.plain(one['message'] + hint)}")
    if not made["redispatched"] and not made["skipped"]:
        output.text("no interrupted task can be run again")
    return 0
