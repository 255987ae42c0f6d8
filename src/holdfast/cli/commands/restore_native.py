"""`holdfast restore ID --native`: restore transcripts that their own tool deleted or truncated."""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import Any

from holdfast import config, errors, timestamps
from holdfast.agents.base import Agent
from holdfast.agents.registry import AgentRegistry
from holdfast.cli import common, output
from holdfast.cli.open_store import open_for_change
from holdfast.home import Home
from holdfast.model.token import Token
from holdfast.transcripts.backups import BackupDifference, TranscriptBackup
from holdfast.transcripts.reader import TranscriptReader

WORTH = {"missing": "is missing", "shrunk": "was truncated", "rewritten": "was rewritten"}


def restore(options: argparse.Namespace) -> int:
    """Show what is missing or truncated, then restore our copies; replaced versions are kept."""
    home, _ = common.home_and_location(options)
    registry = AgentRegistry.from_config(config.load(home).get("agents", {}))
    natives = [_native(home, registry, token) for token in asyncio.run(_tokens(options))]
    if not any(native.exists() for native in natives):
        raise errors.NotFound("there is no copy of this transcript", hint=_why(natives))
    done: list[dict[str, Any]] = []
    for native in natives:
        for found in native.differences():
            if found.change in WORTH:
                done.append(_put_back(options, native, found))
    if options.json:
        output.json_line(done)
    elif not done:
        output.text("nothing is missing or truncated")
    return 0


def _put_back(
    options: argparse.Namespace, native: TranscriptBackup, found: BackupDifference
) -> dict[str, Any]:
    went_on = found.rows == 0 and found.change == "rewritten"
    if not options.json:
        output.text(_shown(found))
    kept = None if options.dry_run or went_on else native.restore(found, timestamps.now())
    if kept and not options.json:
        output.text(f"  restored; the replaced version is {kept}")
    told = {"path": found.path, "was": found.change, "copy": found.copy, "kept": kept}
    return told if found.rows is None else {**told, "rows": found.rows}


def _shown(found: BackupDifference) -> str:
    if found.rows is None:
        size = os.path.getsize(found.copy)
        return f"{found.path} {WORTH[found.change]}; the copy has {size:,} bytes"
    if found.change == "rewritten":
        return (
            f"this session continued differently in {found.path}, which is left unchanged; see {found.copy}"
        )
    return f"this session {WORTH[found.change]} in {found.path}; {found.rows:,} rows to restore"


def _native(home: Home, registry: AgentRegistry, token: Token) -> TranscriptBackup:
    """The copies of a transcript that no living agent writes to."""
    agent = registry.get(token.agent)
    if agent.history is None:
        raise errors.NotFound(f"Holdfast does not know how {agent.title} keeps its history")
    reader = agent.history()
    _refuse_owned(agent, reader, token.native_id)
    return TranscriptBackup(home.native(token.agent, token.native_id), token.native_id, reader)


def _why(natives: list[TranscriptBackup]) -> str:
    told = [native.reader.not_backed_up for native in natives if native.reader.not_backed_up]
    return told[0] if told else "Holdfast makes one before each resume and after each task"


async def _tokens(options: argparse.Namespace) -> list[Token]:
    home, location = common.home_and_location(options)
    async with open_for_change(home, location) as store:
        found = await store.tokens(await store.resolve(options.session))
    if not found:
        raise errors.NoToken("this session has no token, so there is no transcript to restore")
    return found


def _refuse_owned(agent: Agent, reader: TranscriptReader, native_id: str) -> None:
    root = reader.root(os.environ)
    for place in reader.find(root, native_id):
        if pids := reader.owners(root, place):
            raise errors.SessionRunning(
                f"{agent.title} is running with this session (process {pids[0]})", hint="stop it first"
            )
