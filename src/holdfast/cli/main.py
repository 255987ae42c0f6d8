"""`holdfast`: finds the command, loads only that one, and turns errors into one line and an exit status."""

from __future__ import annotations

import os
import sys

from holdfast import __version__
from holdfast.cli import output
from holdfast.errors import HoldfastError

# name: (the module that has it, what it does)
COMMANDS = {
    "init": ("init", "make the home and its store"),
    "up": ("up", "the hub: its API, its page and its worker"),
    "run": ("run", "run a prompt with an agent, and follow it"),
    "tasks": ("tasks", "what runs, waits and has ended"),
    "answer": ("answer", "allow or deny what an agent asks for"),
    "cancel": ("cancel", "stop a task and all that it started"),
    "verdict": ("verdict", "whether a session may be gone on with, and why"),
    "resume": ("resume", "go on with a session, or with a copy of it, or anew"),
    "token": ("token", "a session's tokens; record one by hand, revoke it, reinstate it"),
    "trust": ("trust", "say that a session is sound whose last task did not end well"),
    "redispatch": ("redispatch", "run interrupted tasks once more"),
    "agents": ("agents", "what is installed here, and what is known not to work with it"),
    "ls": ("ls", "list sessions, the latest first"),
    "show": ("show", "all about one session but its events"),
    "log": ("log", "a session's events"),
    "history": ("history", "an agent's own transcript as events"),
    "inspect": ("inspect", "whether an agent's own session is sound"),
    "import": ("import_", "adopt sessions that agents had without us"),
    "archive": ("archive", "put a session away; its key is free again, its token stays"),
    "unarchive": ("archive", "take a session out again"),
    "rm": ("archive", "move a session into the trash"),
    "restore": ("archive", "bring a session back from the trash"),
    "doctor": ("doctor", "what is wrong, what would mend it, and do so"),
    "logins": ("logins", "which browsers are logged in to the page, and ending their logins"),
    "config": ("config", "what is in force, and from where"),
    "demo": ("demo", "a tour: runs a demo agent, kills things, shows what survives"),
    "completion": ("completion", "what a shell needs to complete all this"),
}
ASKED_BY_SHELLS = {"complete": ("complete", "what a word may become")}


def main(arguments: list[str] | None = None) -> int:
    """Run one command line; the exit status (docs/exit-codes.md)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        output.text(_overview())
        return 0
    if arguments[0] in ("-V", "--version"):
        output.text(f"holdfast {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS and name not in ASKED_BY_SHELLS:
        return _fail(f"there is no command {name!r}", "`holdfast --help` lists them", 2)
    return _run(name, rest)


def _run(name: str, rest: list[str]) -> int:
    from importlib import import_module

    command = import_module(f"holdfast.cli.commands.{(COMMANDS.get(name) or ASKED_BY_SHELLS[name])[0]}")
    options = None
    try:
        options = command.parser(name).parse_args(rest)
        status: int = command.run(options)
        sys.stdout.flush()
        return status
    except SystemExit as stop:  # argparse, after --help or a wrong option
        return stop.code if isinstance(stop.code, int) else 2
    except HoldfastError as problem:
        if getattr(options, "json", False):
            import json

            output.note(json.dumps(problem.as_json()))
            return problem.exit_status
        return _fail(problem.message, problem.hint, problem.exit_status)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as problem:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        what = f"{type(problem).__name__}: {problem}"
        return _fail(f"unexpected: {what}", "HOLDFAST_DEBUG=1 shows where; please report it", 1)


def _fail(message: str, hint: str, status: int) -> int:
    line = " ".join(message.split())
    output.note(f"holdfast: {line}" + (f" ({hint})" if hint else ""))
    return status


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: holdfast COMMAND [OPTION …]",
            "",
            *lines,
            "",
            "HOLDFAST_HOME names the home, --store URL (or HOLDFAST_STORE) the store;",
            "--json prints what a program can read. `holdfast COMMAND --help` tells more.",
        ]
    )
