"""Prompts on their way to a worker, as `run`, `resume` and `redispatch` send them."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from holdfast.cli import background, options, output
from holdfast.cli.who import who


def add_options(made: argparse.ArgumentParser) -> None:
    """What every prompt can be sent with."""
    made.add_argument("prompt", metavar="PROMPT", help="what to do; - reads it from standard input")
    made.add_argument("--permissions", choices=("ask", "allow", "deny"), help="what it may do (ask)")
    made.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop it after so long")
    made.add_argument("--queue", action="store_true", help="wait behind what runs there; else it is refused")
    made.add_argument("--no-brief", action="store_true", help="do not tell a fresh run of the one cut short")
    made.add_argument("--detach", action="store_true", help="do not follow it")


def send(given: argparse.Namespace, **wish: Any) -> int:
    """Queue it and follow it to its end; the exit status tells how it ended."""
    from holdfast.cli.run import follow

    home, location = options.place(given)
    made = background.start(
        home,
        location,
        {
            "wish": "prompt",
            "prompt": sys.stdin.read() if given.prompt == "-" else given.prompt,
            "permissions": given.permissions,
            "time_limit_s": given.time_limit,
            "queue": given.queue,
            "brief": not given.no_brief,
            **wish,
        },
        who(),
    )
    task, session = made["task"], made["session"]
    if not given.detach:
        return follow(home, location, session, task, given.json)
    if given.json:
        output.json_line(made)
    else:
        print(f"task {task} of session {session}; `holdfast log -f {session}` follows it")
    return 0
