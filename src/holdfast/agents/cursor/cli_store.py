"""The CLI's `store.db`: one conversation in blobs, beside it (in ACP mode) a `meta.json` with its cwd."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import apsw
import msgspec

from holdfast.agents.cursor import sqlite_rows
from holdfast.agents.cursor import sqlite_rows as sql
from holdfast.agents.cursor.checkpoints import CheckpointGraph
from holdfast.agents.cursor.protobuf import ProtobufMessage
from holdfast.agents.cursor.sessions import ACP, LEGACY, META, drawer
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl as lines
from holdfast.transcripts.reader import TranscriptProblem

Item = NewEvent | TranscriptProblem
_LONGEST_META = 1 << 20
_PATH = re.compile(rb"/[^\x00-\x1f\"'<>*|]{1,1000}")
_LOOKED_AT = 12  # blobs in which a cwd is looked for
_PROMPTS, _TURNS = 1, 8


class CliStoreHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a store says of its conversation, without the conversation."""

    id: str | None = None
    name: str | None = None
    cwd: str | None = None
    turns: tuple[str, ...] = ()  # their blobs


def header(path: str, form: str) -> CliStoreHeader:
    """The header of a store; an empty one if it cannot be read."""
    cwd = _acp_cwd(path)[1] if form == ACP else None
    try:
        with sql.opened(path) as db:
            meta = sqlite_rows.meta(db) or {}
            get = sqlite_rows.blobs_in(db)
            state = ProtobufMessage(get(lines.word(meta, "latestRootBlobId")) or b"")
            if form == LEGACY:
                near = [get(b.hex()) for b in [*state.many(_PROMPTS)[:_LOOKED_AT], *_first_steps(state, get)]]
                cwd = _drawn(
                    [data for data in near if data], os.path.basename(os.path.dirname(os.path.dirname(path)))
                )
            return CliStoreHeader(
                id=lines.plain(meta.get("agentId")),
                name=lines.plain(meta.get("name")),
                cwd=cwd,
                turns=tuple(turn.hex() for turn in state.many(_TURNS)),
            )
    except (OSError, apsw.Error):
        return CliStoreHeader(cwd=cwd)


def story(path: str, form: str, native_id: str) -> Iterator[Item]:
    """The events of the conversation, and what is wrong in its place."""
    if form == ACP:
        found, cwd = _acp_cwd(path)
        if not found:
            yield TranscriptProblem(
                "no_meta_json", "its meta.json is gone, without which ACP does not find it", {}
            )
        elif cwd is None:
            yield TranscriptProblem("bad_header", "its meta.json tells no cwd", {})
    try:
        with sql.opened(path) as db:
            if missing := sqlite_rows.TABLES - sql.tables(db):
                yield TranscriptProblem(
                    "schema_unknown", f"the store has no table {', '.join(sorted(missing))}", {"path": path}
                )
                return
            meta = sqlite_rows.meta(db)
            yield from _told(db, meta, native_id)
    except (OSError, apsw.Error) as problem:
        text = f"the store cannot be read: {' '.join(str(problem).split())}"
        yield NewEvent("notice", {"text": text, "code": "store_damaged"})
        yield TranscriptProblem("store_damaged", text, {"path": path})


def _told(db: apsw.Connection, meta: dict[str, Any] | None, native_id: str) -> Iterator[Item]:
    if meta is None:
        yield TranscriptProblem("bad_header", "the store says nothing of its conversation", {})
        return
    told = meta.get("agentId")
    if told != native_id:
        text = f"the store is of {lines.plain(told) or 'nobody'}, not of {native_id}"
        yield TranscriptProblem("session_id_mismatch", text, {"agentId": lines.plain(told)})
    if root := lines.word(meta, "latestRootBlobId"):
        yield from CheckpointGraph(native_id, root, sqlite_rows.blobs_in(db)).story()
    else:
        yield TranscriptProblem("empty", "the store has no conversation yet", {})


def _acp_cwd(path: str) -> tuple[bool, str | None]:
    """Whether there is a meta.json, and the cwd it tells."""
    with suppress(OSError), open(os.path.join(os.path.dirname(path), META), "rb") as file:
        value = lines.parse(file.read(_LONGEST_META))
        return True, lines.plain(value.get("cwd")) if isinstance(value, dict) else None
    return False, None


def _first_steps(state: ProtobufMessage, get: Any) -> list[bytes]:
    for turn in state.many(_TURNS)[:1]:
        agent = ProtobufMessage(get(turn.hex()) or b"").inside(1)
        return agent.many(2)[:_LOOKED_AT] if agent is not None else []
    return []


def _drawn(near: list[bytes], name: str) -> str | None:
    """The cwd whose drawer has that name: a path in the first blobs that proves it by its hash."""
    for data in near:
        for found in _PATH.findall(data):
            path = found.decode(errors="replace")
            words = path.split(" ")
            for count in range(1, min(len(words), 4) + 1):
                tried = " ".join(words[:count]).rstrip(".,;:)")
                if drawer(tried) == name:
                    return tried
    return None
