"""Arguments of the commands that read an agent's own sessions."""

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
            "names", metavar="ID_OR_PATH", nargs="*", help="only these sessions (default: all of the agent)"
        )
    else:
        parser.add_argument("name", metavar="ID_OR_PATH", help="the agent's own id, or a path")
    parser.add_argument(
        "--in", dest="store_path", metavar="PATH", help="the agent's store, if it is not in the usual folder"
    )


def reader_for(options: argparse.Namespace) -> tuple[TranscriptReader, str]:
    """The reader for the agent, and the root of its store."""
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
    """The one session with that name."""
    matches = reader.find(root, name)
    if not matches:
        raise errors.NotFound(
            f"{reader.agent} has no session {name!r} in {root}", hint="--in PATH names another store"
        )
    if len(matches) > 1:
        paths = sorted({match.path for match in matches})
        raise errors.Ambiguous(
            f"{len(matches)} sessions match {name!r}", hint=f"name one by its path: {', '.join(paths[:5])}"
        )
    return matches[0]
