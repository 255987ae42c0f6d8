"""An agent's own sessions, as the commands that read them name them."""

from __future__ import annotations

import argparse
import os

from holdfast import config, errors
from holdfast.agents.registry import AgentRegistry
from holdfast.cli import common
from holdfast.transcripts.reader import SessionRef, TranscriptReader


def add_arguments(parser: argparse.ArgumentParser, *, many: bool) -> None:
    """AGENT ID_OR_PATH [--in PATH]."""
    parser.add_argument("agent", metavar="AGENT", help="claude, codex, gemini, … (`holdfast agents`)")
    if many:
        parser.add_argument(
            "names", metavar="ID_OR_PATH", nargs="*", help="only these; else all of the agent"
        )
    else:
        parser.add_argument("name", metavar="ID_OR_PATH", help="the agent's own id, or a path")
    parser.add_argument("--in", dest="store_path", metavar="PATH", help="where its store is, if not as usual")


def reader_for(options: argparse.Namespace) -> tuple[TranscriptReader, str]:
    """The reader that is meant, and the root to read in."""
    home, _ = common.home_and_location(options)
    agent = AgentRegistry.from_config(config.load(home).get("agents", {})).get(options.agent)
    if agent.history is None:
        raise errors.BadInput(f"Holdfast does not know how {agent.title} keeps its history")
    reader = agent.history()
    root = os.path.abspath(options.store_path) if options.store_path else reader.root(os.environ)
    if options.store_path and not os.path.exists(root):
        raise errors.NotFound(f"there is nothing at {root}")
    return reader, root


def find_one(reader: TranscriptReader, root: str, name: str) -> SessionRef:
    """The one session that is meant."""
    found = reader.find(root, name)
    if not found:
        raise errors.NotFound(
            f"{reader.agent} has no session {name!r} in {root}", hint="--in PATH names another store"
        )
    if len(found) > 1:
        paths = sorted({place.path for place in found})
        raise errors.Ambiguous(
            f"{len(found)} sessions are called {name!r}", hint=f"give a path: {', '.join(paths[:5])}"
        )
    return found[0]
