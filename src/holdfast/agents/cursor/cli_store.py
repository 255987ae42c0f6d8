"""What does the CLI's `store.db` hold? One conversation in blobs; in ACP mode a `meta.json` has its cwd."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import apsw
import msgspec

from holdfast.agents.cursor import sqlite_rows
from holdfast.agents.cursor.checkpoints import CheckpointGraph
from holdfast.agents.cursor.protobuf import ProtobufMessage
from holdfast.agents.cursor.sessions import ACP, LEGACY, META, chats_folder_name
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import TranscriptProblem

Item = NewEvent | TranscriptProblem
_LONGEST_META = 1 << 20
_PATH = re.compile(rb"/[^\x00-\x1f\"'<>*|]{1,1000}")
_LOOKED_AT = 12  # how many blobs are searched for a cwd
_PROMPTS, _TURNS = 1, 8


class CliStoreHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a store says about its conversation, without the conversation."""

    id: str | None = None
    name: str | None = None
    cwd: str | None = None
    turns: tuple[str, ...] = ()  # their blobs


def header(path: str, form: str) -> CliStoreHeader:
    """The header of a store; an empty one if it cannot be read."""
    cwd = _acp_cwd(path)[1] if form == ACP else None
    try:
        with sqlite_rows.open_database(path) as db:
            meta = sqlite_rows.meta(db) or {}
            get = sqlite_rows.blobs_in(db)
            state = ProtobufMessage(get(jsonl.text_field(meta, "latestRootBlobId")) or b"")
            if form == LEGACY:
                near = [get(b.hex()) for b in [*state.many(_PROMPTS)[:_LOOKED_AT], *_first_steps(state, get)]]
                cwd = _cwd_by_hash(
                    [data for data in near if data], os.path.basename(os.path.dirname(os.path.dirname(path)))
                )
            return CliStoreHeader(
                id=jsonl.storable_id(meta.get("agentId")),
                name=jsonl.storable_id(meta.get("name")),
                cwd=cwd,
                turns=tuple(turn.hex() for turn in state.many(_TURNS)),
            )
    except (OSError, apsw.Error):
        return CliStoreHeader(cwd=cwd)


def read_conversation(path: str, form: str, native_id: str) -> Iterator[Item]:
    """The events of the conversation, with problems where they occur."""
    if form == ACP:
        exists, cwd = _acp_cwd(path)
        if not exists:
            yield TranscriptProblem("no_meta_json", "its meta.json is missing, so ACP does not find it", {})
        elif cwd is None:
            yield TranscriptProblem("bad_header", "its meta.json has no cwd", {})
    try:
        with sqlite_rows.open_database(path) as db:
            if missing := sqlite_rows.TABLES - sqlite_rows.tables(db):
                yield TranscriptProblem(
                    "schema_unknown", f"the store has no table {', '.join(sorted(missing))}", {"path": path}
                )
                return
            meta = sqlite_rows.meta(db)
            yield from _check_owner(db, meta, native_id)
    except (OSError, apsw.Error) as problem:
        text = f"the store cannot be read: {' '.join(str(problem).split())}"
        yield NewEvent("notice", {"text": text, "code": "store_damaged"})
        yield TranscriptProblem("store_damaged", text, {"path": path})


def _check_owner(db: apsw.Connection, meta: dict[str, Any] | None, native_id: str) -> Iterator[Item]:
    if meta is None:
        yield TranscriptProblem("bad_header", "the store has no readable metadata", {})
        return
    agent_id = meta.get("agentId")
    if agent_id != native_id:
        text = f"the store belongs to {jsonl.storable_id(agent_id) or 'nobody'}, not to {native_id}"
        yield TranscriptProblem("session_id_mismatch", text, {"agentId": jsonl.storable_id(agent_id)})
    if root := jsonl.text_field(meta, "latestRootBlobId"):
        yield from CheckpointGraph(native_id, root, sqlite_rows.blobs_in(db)).items()
    else:
        yield TranscriptProblem("empty", "the store has no conversation yet", {})


def _acp_cwd(path: str) -> tuple[bool, str | None]:
    """Whether there is a meta.json, and its cwd."""
    with suppress(OSError), open(os.path.join(os.path.dirname(path), META), "rb") as file:
        value = jsonl.parse(file.read(_LONGEST_META))
        return True, jsonl.storable_id(value.get("cwd")) if isinstance(value, dict) else None
    return False, None


def _first_steps(state: ProtobufMessage, get: Any) -> list[bytes]:
    for turn in state.many(_TURNS)[:1]:
        agent = ProtobufMessage(get(turn.hex()) or b"").inside(1)
        return agent.many(2)[:_LOOKED_AT] if agent is not None else []
    return []


def _cwd_by_hash(near: list[bytes], name: str) -> str | None:
    """The cwd that hashes to this folder name, among the paths in the first blobs."""
    for data in near:
        for candidate in _PATH.findall(data):
            path = candidate.decode(errors="replace")
            words = path.split(" ")
            for count in range(1, min(len(words), 4) + 1):
                tried = " ".join(words[:count]).rstrip(".,;:)")
                if chats_folder_name(tried) == name:
                    return tried
    return None
