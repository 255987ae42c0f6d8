"""Builds hapi databases of any schema version: the columns of each as its ladder of migrations gives them."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import apsw

VERSIONS = range(1, 27)
T0 = 1_794_780_000_000  # when the first session was made

SESSIONS = (
    (1, "id text primary key, tag text, namespace text not null default 'default', machine_id text"),
    (1, "created_at integer not null, updated_at integer not null"),
    (1, "metadata text, metadata_version integer default 1"),
    (1, "agent_state text, agent_state_version integer default 1, todos text, todos_updated_at integer"),
    (1, "active integer default 0, active_at integer, seq integer default 0"),
    (4, "team_state text, team_state_updated_at integer"),
    (5, "model text"),
    (6, "effort text"),
    (7, "model_reasoning_effort text"),
    (10, "service_tier text"),
    (22, "pinned integer not null default 0, global_pinned integer not null default 0"),
)
MESSAGES = (
    (1, "id text primary key, session_id text not null, content text not null"),
    (1, "created_at integer not null, seq integer not null, local_id text"),
    (8, "invoked_at integer"),
    (9, "scheduled_at integer"),
    (25, "delivery_state text not null default 'queued'"),
)
OTHERS = (
    (11, "create table fcm_devices (token text primary key)"),
    (12, "create table session_scratchlist (session_id text, entry_id text, text text)"),
    (13, "create table message_epochs (session_id text primary key, epoch integer not null default 0)"),
    (17, "create table usage_events (session_id text, source_key text)"),
    (23, "create table events (id text primary key); create table event_links (id text primary key)"),
    (
        26,
        "create index idx_messages_immediate_queued on messages(session_id)"
        " where invoked_at is null and scheduled_at is null",
    ),
)
CASCADE = "foreign key (session_id) references sessions(id) on delete cascade"


class Said(NamedTuple):
    """One message to be put into a database."""

    content: Any  # JSON, or bytes as they are
    local_id: str | None = None
    invoked: bool = True  # taken from the queue
    scheduled: bool = False
    ago: int = 0  # how many ms before the session's row it was made


class Made(NamedTuple):
    """One session to be put into a database."""

    metadata: Any  # JSON; text or bytes are put as they are, None is no value
    messages: tuple[Said, ...] = ()


def build(
    path: Path, version: int, sessions: dict[str, Made], *, packed: bool = False, start: int = T0
) -> None:
    """A database in one file; `packed`: contents are compressed where that version may have them so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    db = apsw.Connection(str(path))
    db.execute(f"create table sessions ({_columns(SESSIONS, version)})")
    db.execute(f"create table messages ({_columns(MESSAGES, version)}, {CASCADE})")
    state = "daemon_state" if version == 1 else "runner_state"
    db.execute(
        f"create table machines (id text primary key, metadata text, {state} text);"
        "create index idx_messages_session on messages(session_id, seq)"
    )
    if version >= 8:
        db.execute(
            "create index idx_messages_session_position on messages"
            "(session_id, coalesce(invoked_at, created_at) desc, seq desc)"
        )
    for since, sql in OTHERS:
        if version >= since:
            db.execute(sql)
    db.execute(f"pragma user_version = {version}")
    db.execute("begin")
    for number, (name, session) in enumerate(sessions.items()):
        at = start + number * 60_000
        db.execute(
            "insert into sessions"
            " (id, tag, created_at, updated_at, metadata, metadata_version, active_at, seq)"
            " values (?, ?, ?, ?, ?, ?, ?, ?)",
            (name, f"tag {number}", at, at, _text(session.metadata), 1 + number % 3, at, number % 5),
        )
        for seq, said in enumerate(session.messages):
            _put(db, version, name, seq, said, at - said.ago + seq, packed and version >= 16)
    db.execute("commit")
    db.close()


def _put(db: apsw.Connection, version: int, name: str, seq: int, said: Said, at: int, packed: bool) -> None:
    content = _text(said.content)
    row: dict[str, Any] = {"id": f"{name}/{seq}", "session_id": name, "created_at": at, "seq": seq}
    row["content"] = zstd(content.encode()) if packed and isinstance(content, str) else content
    row["local_id"] = said.local_id
    if version >= 8:
        row["invoked_at"] = at if said.invoked else None
    if version >= 9:
        row["scheduled_at"] = at + 1000 if said.scheduled else None
    marks = ", ".join("?" * len(row))
    db.execute(f"insert into messages ({', '.join(row)}) values ({marks})", tuple(row.values()))


def zstd(data: bytes) -> bytes:
    """As hapi stores long contents since version 16."""
    try:
        return bytes(importlib.import_module("compression.zstd").compress(data))
    except ImportError:
        return bytes(importlib.import_module("zstandard").ZstdCompressor().compress(data))


def _columns(table: tuple[tuple[int, str], ...], version: int) -> str:
    return ", ".join(columns for since, columns in table if since <= version)


def _text(value: Any) -> Any:
    return value if value is None or isinstance(value, str | bytes) else json.dumps(value)
