"""`holdfast redispatch`: run interrupted tasks again."""

from __future__ import annotations

import argparse

from holdfast.cli import background, common, output, send
from holdfast.cli.common import current_user
from holdfast.errors import BadInput


def parser(name: str) -> argparse.ArgumentParser:
    """Which tasks."""
    parser = common.parser(name, "Run interrupted tasks again: each one once, by its session's verdict.")
    parser.add_argument("--interrupted", action="store_true", help="all interrupted tasks")
    parser.add_argument("--key", help="only tasks of this thread")
    parser.add_argument(
        "--wait", action="store_true", help="also queue tasks that must wait until their session is free"
    )
    return parser


def run(options: argparse.Namespace) -> int:
    """Queue them, and print the result of each."""
    if not options.interrupted:
        raise BadInput("name the tasks to run again", hint="--interrupted")
    home, location = common.home_and_location(options)
    result = send.via_hub(
        home,
        location,
        lambda hub: hub.redispatch(None if options.key is None else [options.key], wait=options.wait),
        lambda: background.start(
            home, location, {"wish": "again", "key": options.key, "wait": options.wait}, current_user()
        ),
    )
    if options.json:
        output.json_line(result)
        return 0
    for one in result["redispatched"]:
        waits = f"; it waits for: {one['waits_for']}" if one.get("waits_for") else ""
        output.text(
            f"task {one['of']} is run again as {one['task']} of session {one['session']}{output.plain(waits)}"
        )
    for one in result["skipped"]:
        hint = f" ({one['hint']})" if one.get("hint") else ""
        output.text(f"task {one['task']} is not run again: {output.plain(one['message'] + hint)}")
    if not result["redispatched"] and not result["skipped"]:
        output.text("no interrupted task can be run again")
    return 0
