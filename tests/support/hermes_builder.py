"""Homes of Hermes made by the rules of its formats: databases of every age, sidecars, backups, journals."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import apsw

T0 = 1_750_000_000.0
MARK = "0123456789ab4cde8123456789abcdef"  # as uuid4().hex would be

_SESSIONS = """id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT, model_config TEXT,
    system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
    message_count INTEGER DEFAULT 0, tool_call_count INTEGER DEFAULT 0, input_tokens INTEGER DEFAULT 0,
    output_tokens INTEGER DEFAULT 0, title TEXT"""
_SESSIONS_22 = """, session_key TEXT, chat_id TEXT, chat_type TEXT, thread_id TEXT, display_name TEXT,
    origin_json TEXT, expiry_finalized INTEGER, cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0, reasoning_tokens INTEGER DEFAULT 0, cwd TEXT, git_branch TEXT,
    git_repo_root TEXT, billing_provider TEXT, billing_base_url TEXT, billing_mode TEXT,
    estimated_cost_usd REAL, actual_cost_usd REAL, cost_status TEXT, cost_source TEXT, pricing_version TEXT,
    api_call_count INTEGER DEFAULT 0, profile_name TEXT, rewind_count INTEGER DEFAULT 0,
    archived INTEGER DEFAULT 0"""
_SESSIONS_30 = """, created_source TEXT, system_prompt_hash TEXT, title_source TEXT, last_activity_at REAL,
    transport_profile TEXT, pinned INTEGER DEFAULT 0, hidden INTEGER DEFAULT 0, last_read_at REAL,
    tool_names TEXT"""
_MESSAGES = """id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
    content TEXT, tool_call_id TEXT,
    tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, token_count INTEGER,
    finish_reason TEXT"""
_MESSAGES_22 = """, effect_disposition TEXT, reasoning TEXT, reasoning_content TEXT, reasoning_details TEXT,
    codex_reasoning_items TEXT, codex_message_items TEXT, platform_message_id TEXT,
    observed INTEGER DEFAULT 0, active INTEGER DEFAULT 1, compacted INTEGER DEFAULT 0, api_content TEXT"""
_MESSAGES_30 = """, _compressed_summary INTEGER, display_kind TEXT, display_metadata TEXT,
    display_identity BLOB, display_order INTEGER"""

SCHEMAS: dict[int, tuple[str, str]] = {
    6: (_SESSIONS, _MESSAGES),
    22: (_SESSIONS + _SESSIONS_22, _MESSAGES + _MESSAGES_22),
    25: (_SESSIONS + _SESSIONS_22 + ", system_prompt_hash TEXT", _MESSAGES + _MESSAGES_22),
    30: (_SESSIONS + _SESSIONS_22 + _SESSIONS_30, _MESSAGES + _MESSAGES_22 + _MESSAGES_30),
}


class Made:
    """One home, filled bit by bit."""

    def __init__(self, path: Path, version: int | None = 22):
        """A home with a database of that version; None: with none."""
        self.path = path
        self.folder = path / "webui" / "sessions"
        self.folder.mkdir(parents=True)
        self.version = version
        self.listed: list[str] = []
        if version is not None:
            sessions, messages = SCHEMAS.get(version, SCHEMAS[30])
            self.run(
                f"create table sessions ({sessions}); create table messages ({messages});"
                "create index idx_messages_session on messages(session_id, timestamp);"
                "create table schema_version (version INTEGER);"
                f"insert into schema_version values ({version})"
            )

    def run(self, sql: str, values: tuple[Any, ...] = ()) -> None:
        """Change the database."""
        db = apsw.Connection(str(self.path / "state.db"))
        db.execute(sql, values)
        db.close()

    def heat(self, sql: str) -> None:
        """Change the database such that the change is in its `-wal` only, as after a kill."""
        db = apsw.Connection(str(self.path / "state.db"))
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.execute("pragma journal_mode = wal")
        db.execute(sql)
        db.close()
        assert (self.path / "state.db-wal").stat().st_size > 0

    def row(self, own: str, messages: list[dict[str, Any]], **fields: Any) -> None:
        """A session's row and its messages, as the agent stores them; columns that are not there are left."""
        self._insert(
            "sessions",
            {
                "id": own,
                "source": "webui",
                "title": f"Session {own}",
                "model": "m",
                "started_at": T0,
                "cwd": f"/src/{own}",
                **fields,
            },
        )
        for told in messages:
            stored = {name: value for name, value in told.items() if name != "attachments"}
            if isinstance(stored.get("content"), list | dict):
                stored["content"] = "\0json:" + json.dumps(stored["content"])
            if isinstance(stored.get("tool_calls"), list):
                stored["tool_calls"] = json.dumps(stored["tool_calls"])
            self._insert("messages", {"session_id": own, "timestamp": T0, **stored})

    def side(self, own: str, messages: list[Any], ending: str = ".json", **head: Any) -> Path:
        """A sidecar or a backup, in the web UI's own form."""
        told = {
            "session_id": own,
            "title": f"Session {own}",
            "workspace": f"/src/{own}",
            "created_at": T0,
            "updated_at": T0 + 1000,
            "active_stream_id": None,
            "pending_user_message": None,
            "message_count": len(messages),
            "later_field": {"kept": own},
            **head,
            "messages": messages,
        }
        told.setdefault("tool_calls", [])
        told.setdefault("context_messages", messages)
        path = self.folder / f"{own}{ending}"
        path.write_text(json.dumps(told, ensure_ascii=False, indent=2), encoding="utf-8")
        if own not in self.listed:
            self.listed.append(own)
        return path

    def turn(self, own: str, *lines: Any, shard: str = "~99999999") -> Path:
        """Lines of a turn journal."""
        return self._journal(self.folder / "_turn_journal" / f"{own}{shard}.jsonl", lines)

    def told(self, own: str, stream: str, *lines: Any) -> Path:
        """Lines of a run journal."""
        return self._journal(self.folder / "_run_journal" / own / f"{stream}.jsonl", lines)

    def index(self) -> None:
        """The index of what was put in."""
        entries = [{"session_id": own, "title": f"Session {own}", "later_entry": 1} for own in self.listed]
        (self.folder / "_index.json").write_text(json.dumps(entries, indent=2))

    def delete(self, *ids: str) -> None:
        """Tombstones."""
        told = {"version": 1, "ids": sorted(ids)}
        (self.folder / "_deleted_webui_sessions.json").write_text(json.dumps(told))

    def _insert(self, table: str, fields: dict[str, Any]) -> None:
        db = apsw.Connection(str(self.path / "state.db"))
        known = {row[1] for row in db.execute(f"pragma table_info({table})")}
        fields = {name: value for name, value in fields.items() if name in known}
        names = ", ".join(f'"{name}"' for name in fields)
        marks = ", ".join("?" for _ in fields)
        db.execute(f"insert into {table} ({names}) values ({marks})", tuple(fields.values()))
        db.close()

    def _journal(self, path: Path, lines: tuple[Any, ...]) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            for line in lines:
                told = line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode()
                file.write(told + b"\n")
        return path


def talk(own: str, count: int, start: int = 0, at: float = T0) -> list[dict[str, Any]]:
    """A user and an assistant in turns; each says its number."""
    return [
        {
            "role": "assistant" if n % 2 else "user",
            "content": f"{own} says {n}",
            "timestamp": at + n,
        }
        for n in range(start, start + count)
    ]


def submitted(own: str, turn: str, prompt: str, at: float, stream: str) -> dict[str, Any]:
    """The line with which a turn begins."""
    return {
        "version": 1,
        "event": "submitted",
        "session_id": own,
        "turn_id": turn,
        "created_at": at,
        "stream_id": stream,
        "role": "user",
        "content": prompt,
    }


def token(own: str, stream: str, seq: int, text: str, event: str = "token") -> dict[str, Any]:
    """A line of a run journal."""
    return {
        "version": 1,
        "event_id": f"{stream}:{seq}",
        "seq": seq,
        "run_id": stream,
        "session_id": own,
        "event": event,
        "type": event,
        "created_at": T0 + 500 + seq,
        "terminal": event == "done",
        "terminal_state": "completed" if event == "done" else None,
        "payload": {"text": text},
    }


def everything(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and folder below, with its time."""
    found = {".": (root.stat().st_mtime_ns, b"")}
    for folder, folders, names in os.walk(root):
        for name in [*folders, *names]:
            path = Path(folder, name)
            data = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(root))] = (path.stat().st_mtime_ns, data)
    return found


def content(root: Path) -> dict[str, bytes]:
    """Every file's bytes."""
    return {name: data for name, (_, data) in everything(root).items()}
