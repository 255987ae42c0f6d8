"""`holdfast complete -- WORD …`: completions of the last word of a command line, for a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from holdfast.cli import common, output
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.store.sql import Sql

MOST = 100  # sessions or tasks to offer

Candidate = tuple[str, str]  # the word, and what it is


def parser(name: str) -> argparse.ArgumentParser:
    """The words up to the cursor, the unfinished one last."""
    parser = common.parser(
        name, "Print completions of the last word, one per line. For `holdfast completion`."
    )
    parser.add_argument("words", nargs="*")
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the candidates that begin like the last word."""
    words = options.words or [""]
    for word, about in candidates(words[:-1], words[-1], options):
        if word.startswith(words[-1]) and word.isprintable():
            output.styled(f"{word}\t{output.plain(about)}")
    return 0


def candidates(before: list[str], last: str, options: argparse.Namespace) -> Iterable[Candidate]:
    """Completions of the word after `before`."""
    from holdfast.cli.main import COMMANDS

    if not before:
        return [(name, what) for name, (_, what) in COMMANDS.items()]
    if before[0] not in COMMANDS:
        return []
    from importlib import import_module

    command = import_module(f"holdfast.cli.commands.{COMMANDS[before[0]][0]}").parser(before[0])
    if last.startswith("-"):
        return [(o, a.help or "") for a in command._actions for o in a.option_strings if o.startswith("--")]
    action = wanted(command._actions, before[1:])
    return [] if action is None else values(action, options)


def wanted(actions: list[argparse.Action], words: list[str]) -> argparse.Action | None:
    """The option or positional argument that the next word belongs to."""
    positionals = [action for action in actions if not action.option_strings]
    option = None
    for word in words:
        if option is not None:
            option = None
        elif word.startswith("-") and word != "-":
            option = next((a for a in actions if word in a.option_strings and a.nargs is None), None)
        elif len(positionals) > 1 or (positionals and positionals[0].nargs is None):
            positionals.pop(0)
    return option or (positionals[0] if positionals else None)


def values(action: argparse.Action, options: argparse.Namespace) -> Iterable[Candidate]:
    """Known values of an option or positional argument."""
    if action.choices is not None:
        return [(str(choice), "") for choice in action.choices]
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if name in ("AGENT", "agent") or action.dest == "agent":
        return _agents(options)
    if name in ("ID", "ID_OR_KEY") or action.dest == "key":
        return _sessions(options)
    return _tasks(options) if name == "TASK" else []


def _agents(options: argparse.Namespace) -> list[Candidate]:
    from holdfast import config
    from holdfast.agents.registry import AgentRegistry

    home, _ = common.home_and_location(options)
    registry = AgentRegistry.from_config(config.load(home).get("agents", {}))
    return [(agent.name, agent.title) for agent in registry.agents]


def _sessions(options: argparse.Namespace) -> list[Candidate]:
    from holdfast.store import reads

    async def question(sql: Sql) -> list[dict[str, Any]]:
        return (await reads.sessions(sql, state="all", limit=MOST))[0]

    found = _asked(options, question)
    named = [(s["key"], s["title"] or "") for s in found if s["key"] is not None]
    return [*named, *[(s["id"], s["title"] or "") for s in found]]


def _tasks(options: argparse.Namespace) -> list[Candidate]:
    from holdfast.store import reads

    async def question(sql: Sql) -> list[dict[str, Any]]:
        return await reads.latest_tasks(sql, limit=MOST)

    return [(t["id"], f"{t['status']}: {t['prompt']}"[:80]) for t in _asked(options, question)]


def _asked(options: argparse.Namespace, question: Any) -> list[dict[str, Any]]:
    """The answer of the store; empty if there is none, because a shell cannot show an error."""
    from holdfast.store.readonly import ask

    try:
        found: list[dict[str, Any]] = ask(*common.home_and_location(options), question)
    except HoldfastError:
        return []
    return found
