"""`holdfast`: find the command, load only that one, and turn errors into one line and an exit status."""

from __future__ import annotations

import os
import sys

from holdfast import __version__
from holdfast.cli import output
from holdfast.errors import HoldfastError

# group: {name: (module, description)}
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "run": ("run", "run a prompt with an agent and follow it"),
        "resume": ("resume", "continue a session, a copy of it, or start fresh"),
        "redispatch": ("redispatch", "run interrupted and failed tasks again"),
        "cancel": ("cancel", "stop a task and every process it started"),
        "demo": ("demo", "take a tour: run a demo agent, kill things, see what survives"),
    },
    "Look": {
        "status": ("status", "show the hub, the agents, and what needs you"),
        "open": ("open", "open the page of the running hub in a browser"),
        "ls": ("ls", "list sessions, the latest first"),
        "tasks": ("tasks", "list tasks: running, waiting and ended"),
        "show": ("show", "show one session: header, tokens, tasks and verdict"),
        "log": ("log", "show a session's events"),
        "agents": ("agents", "list installed agents and their known problems"),
        "history": ("history", "show an agent's own transcript as events"),
        "inspect": ("inspect", "check whether an agent's own session is sound"),
    },
    "Decide": {
        "answer": ("answer", "allow or deny what an agent asks for"),
        "verdict": ("verdict", "show whether a session is safe to resume, and why"),
        "trust": ("trust", "mark a session as sound after its last task failed"),
        "token": ("token", "list a session's tokens; record, revoke or reinstate one"),
        "archive": ("archive", "archive a session; its key is free, its token stays"),
        "unarchive": ("archive", "move a session out of the archive"),
        "rm": ("archive", "move a session to the trash"),
    },
    "Repair": {
        "doctor": ("doctor", "find damage, and repair it on request"),
        "restore": ("archive", "restore a session from the trash"),
        "import": ("import_", "import sessions that agents had without Holdfast"),
    },
    "Operate": {
        "up": ("up", "start the hub: its API, its page and its worker"),
        "down": ("down", "stop the hub; the agents keep running"),
        "service": ("service", "start the hub with your login (systemd, launchd)"),
        "init": ("init", "create the home and its store"),
        "config": ("config", "show the settings in force, and where each comes from"),
        "notify": ("notify", "list notifications, or test the channels"),
        "logins": ("logins", "list or revoke the browsers that are logged in"),
        "completion": ("completion", "print the completion script for a shell"),
    },
}
COMMANDS = {name: about for group in GROUPS.values() for name, about in group.items()}
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
    lines = []
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *[f"  {name:<{width}}  {what}" for name, (_, what) in commands.items()]]
    return "\n".join(
        [
            "usage: holdfast COMMAND [OPTION …]",
            *lines,
            "",
            'example: holdfast run -a claude --key issue-7 "Fix the flaky upload test"',
            "",
            "HOLDFAST_HOME sets the home; --store URL (or HOLDFAST_STORE) sets the store;",
            "--json prints JSON. `holdfast COMMAND --help` shows options and examples.",
        ]
    )
