"""`holdfast`: find the command, load only that one, and turn errors into one line and an exit status."""

from __future__ import annotations

import os
import sys

from holdfast import __version__
from holdfast.cli import output
from holdfast.errors import HoldfastError

# name: (module, description)
COMMANDS = {
    "init": ("init", "create the home and its store"),
    "up": ("up", "start the hub: its API, its page and its worker"),
    "run": ("run", "run a prompt with an agent and follow it"),
    "tasks": ("tasks", "list tasks: running, waiting and ended"),
    "answer": ("answer", "allow or deny what an agent asks for"),
    "cancel": ("cancel", "stop a task and every process it started"),
    "verdict": ("verdict", "show whether a session is safe to resume, and why"),
    "resume": ("resume", "continue a session, a copy of it, or start fresh"),
    "token": ("token", "list a session's tokens; record, revoke or reinstate one"),
    "trust": ("trust", "mark a session as sound after its last task failed or was cancelled"),
    "redispatch": ("redispatch", "run interrupted tasks again"),
    "agents": ("agents", "list installed agents and their known problems"),
    "ls": ("ls", "list sessions, the latest first"),
    "show": ("show", "show one session: header, tokens and tasks"),
    "log": ("log", "show a session's events"),
    "history": ("history", "show an agent's own transcript as events"),
    "inspect": ("inspect", "check whether an agent's own session is sound"),
    "import": ("import_", "import sessions that agents had without Holdfast"),
    "archive": ("archive", "archive a session; its key is free again, its token stays"),
    "unarchive": ("archive", "move a session out of the archive"),
    "rm": ("archive", "move a session to the trash"),
    "restore": ("archive", "restore a session from the trash"),
    "doctor": ("doctor", "find damage, and repair it on request"),
    "logins": ("logins", "list the browsers that are logged in to the page, or revoke their logins"),
    "config": ("config", "show the settings in force, and where each comes from"),
    "demo": ("demo", "take a tour: run a demo agent, kill things, show what survives"),
    "completion": ("completion", "print the completion script for a shell"),
}
SHELL_COMMANDS = {"complete": ("complete", "list completions of a word")}


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
    if name not in COMMANDS and name not in SHELL_COMMANDS:
        return _fail(f"unknown command {name!r}", "`holdfast --help` lists all commands", 2)
    return _run(name, rest)


def _run(name: str, rest: list[str]) -> int:
    from importlib import import_module

    command = import_module(f"holdfast.cli.commands.{(COMMANDS.get(name) or SHELL_COMMANDS[name])[0]}")
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
        return _fail(
            f"unexpected error: {what}", "set HOLDFAST_DEBUG=1 to see the traceback; please report it", 1
        )


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
            "HOLDFAST_HOME sets the home; --store URL (or HOLDFAST_STORE) sets the store;",
            "--json prints JSON. `holdfast COMMAND --help` shows the options of a command.",
        ]
    )
