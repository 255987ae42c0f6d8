"""`holdfast redispatch`: run interrupted and failed tasks again."""

from __future__ import annotations

import argparse
from typing import Any

from holdfast.cli import background, common, exit_status, output, send
from holdfast.cli.common import current_user
from holdfast.errors import BadInput


def parser(name: str) -> argparse.ArgumentParser:
    """Which tasks."""
    parser = common.parser(
        name,
        "Run tasks again that were interrupted or failed: each one once, by its session's verdict. "
        f"Exits with {exit_status.NOTHING_SENT} if no task is run again.",
    )
    parser.add_argument(
        "names",
        metavar="TASK_OR_KEY",
        nargs="*",
        help="these tasks, or the last task of these keys or sessions",
    )
    parser.add_argument("--interrupted", action="store_true", help="all interrupted tasks")
    parser.add_argument("--failed", action="store_true", help="all failed tasks, too")
    parser.add_argument("--key", help="only tasks of this thread")
    parser.add_argument(
        "--wait", action="store_true", help="also queue tasks that must wait until their session is free"
    )
    return parser


def run(options: argparse.Namespace) -> int:
    """Queue them, and print the result of each."""
    many = options.interrupted or options.failed
    if options.names and (many or options.key is not None):
        raise BadInput(
            "name tasks, or choose them with --interrupted, --failed and --key, but not both",
            hint="`holdfast redispatch --help` has examples",
        )
    if not options.names and not many and options.key is None:
        raise BadInput("name the tasks to run again", hint="--interrupted means all interrupted tasks")
    home, location = common.home_and_location(options)
    wish = {
        "wish": "again",
        "names": options.names,
        "key": options.key,
        "failed": options.failed,
        "wait": options.wait,
    }
    result = send.via_hub(
        home,
        location,
        lambda hub: hub.redispatch(
            None if options.key is None else [options.key],
            tasks=options.names or None,
            failed=options.failed,
            wait=options.wait,
        ),
        lambda: background.start(home, location, wish, current_user()),
    )
    if options.json:
        output.json_line(result)
    else:
        _print(result, options)
    return 0 if result["redispatched"] else exit_status.NOTHING_SENT


def _print(result: dict[str, Any], options: argparse.Namespace) -> None:
    for one in result["redispatched"]:
        waits = f"; it waits for: {one['waits_for']}" if one.get("waits_for") else ""
        output.text(
            f"task {one['of']} is run again as {one['task']} of session {one['session']}{output.plain(waits)}"
        )
    for one in result["skipped"]:
        hint = f" ({one['hint']})" if one.get("hint") else ""
        output.text(f"task {one['task']} is not run again: {output.plain(one['message'] + hint)}")
    if not result["redispatched"] and not result["skipped"]:
        what = "interrupted or failed" if options.failed else "interrupted"
        output.text(f"no {what} task can be run again")
    elif not result["redispatched"]:
        output.text("no task is run again")
