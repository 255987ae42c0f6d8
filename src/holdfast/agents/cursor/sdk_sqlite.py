"""How is the SDK's SQLite store read? `index.db`, and a blob database per agent."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import apsw

from holdfast import timestamps
from holdfast.agents.cursor import sqlite_rows
from holdfast.agents.cursor.checkpoints import Blobs
from holdfast.agents.cursor.sdk_runs import SdkRun, SdkRunMessage
from holdfast.agents.cursor.sdk_store import Item, SdkAgent, message_of, orphans, run_of
from holdfast.agents.cursor.sqlite_rows import blobs_in
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import TranscriptProblem

TABLES = frozenset({"agents", "runs", "run_events"})
_AGENT = (
    "agent_id",
    "workspace_ref",
    "status",
    "active_run_id",
    "latest_checkpoint_ref_json",
    "name",
    "updated_at",
)
_TIMES = ("finished_at", "cancelled_at", "expired_at", "updated_at")
_RUN = ("run_id", "agent_id", "request_id", "turn_number", "status", "error_code", *_TIMES)
_SEQ = "case typeof(seq) when 'integer' then seq end"  # text that is not UTF-8 would not be a value at all
_EVENT = f"{_SEQ}, cast(payload_json as blob), cast(payload_ref as blob), cast(created_at as blob)"


class SdkSqliteStore:
    """An open store: one state of it."""

    def __init__(self, path: str):
        self.path = path
        self._problems: list[TranscriptProblem] = []
        self._stack = ExitStack()
        self._db: apsw.Connection | None = None

    def __enter__(self) -> SdkSqliteStore:
        try:
            self._db = self._stack.enter_context(sqlite_rows.open_database(self.path))
            missing = TABLES - sqlite_rows.tables(self._db)
        except (apsw.Error, OSError) as problem:
            self._damaged(problem)
            self._db = None
            return self
        if missing:
            text = f"the store has no table {', '.join(sorted(missing))}"
            self._problems.append(TranscriptProblem("schema_unknown", text, {"path": self.path}))
            self._db = None
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def agents(self) -> Iterator[SdkAgent]:
        """All agents, including those of which only a run is left."""
        known = set()
        for row in self._rows("agents", _AGENT):
            if (agent_id := jsonl.storable_id(row["agent_id"])) is None:
                continue
            known.add(agent_id)
            reference = jsonl.parse(_bytes(row["latest_checkpoint_ref_json"]))
            yield SdkAgent(
                id=agent_id,
                cwd=jsonl.storable_id(row["workspace_ref"]),
                name=jsonl.storable_id(row["name"]),
                status=jsonl.text_field(row, "status").upper(),
                active_run=jsonl.storable_id(row["active_run_id"]),
                root=jsonl.storable_id(reference.get("blobId")) if isinstance(reference, dict) else None,
                updated=timestamps.of(row["updated_at"]),
            )
        for row in self._rows("runs", ("agent_id",), "group by agent_id"):
            if (agent_id := jsonl.storable_id(row["agent_id"])) is not None and agent_id not in known:
                yield SdkAgent(id=agent_id, has_row=False)

    def runs(self, agent: str) -> list[SdkRun]:
        """Its runs in the order of their turns."""
        runs = [
            run_of(row, lambda name: name, jsonl.storable_id(row["error_code"]))
            for row in self._run_rows(agent)
        ]
        return sorted((run for run in runs if run is not None), key=lambda run: run.turn)

    def log(self, run: SdkRun) -> Iterator[SdkRunMessage]:
        """A run's log in order of its numbers."""
        if self._db is None:
            return
        query = f"select {_EVENT} from run_events where run_id = ? order by seq"
        try:
            for seq, payload, reference, at in self._db.execute(query, (run.id,)):
                if seq is None:
                    continue
                parsed = jsonl.parse(_bytes(payload))
                if payload is None and reference is not None:
                    parsed = jsonl.notice_event(
                        "missing_blob", "the payload of this event is stored elsewhere"
                    )
                yield message_of(seq, _text(at), parsed)
        except apsw.Error as problem:
            self._damaged(problem)

    def rest(self, agent: str) -> Iterator[Item]:
        """Entries without a run, and damage."""
        if self._db is not None:
            query = "select run_id, count(*), min(cast(payload_json as blob)) from run_events"
            query += " where run_id not in (select run_id from runs) group by run_id"
            try:
                for run, count, payload in self._db.execute(query):
                    parsed = jsonl.parse(_bytes(payload))
                    if isinstance(parsed, dict) and parsed.get("agentId") == agent:
                        yield from orphans(agent, str(run), count)
            except (apsw.Error, UnicodeDecodeError) as problem:
                self._damaged(problem)
        yield from self._problems

    @contextmanager
    def blobs(self, agent: str) -> Iterator[Blobs]:
        """Its checkpoints."""
        with ExitStack() as stack:
            try:
                db = stack.enter_context(sqlite_rows.open_database(blobs_path(self.path, agent)))
            except (apsw.Error, OSError):
                yield lambda _: None
                return
            yield blobs_in(db)

    def _run_rows(self, agent: str) -> Iterator[dict[str, Any]]:
        return self._rows("runs", _RUN, "where agent_id = ?", (agent,))

    def _rows(
        self, table: str, names: tuple[str, ...], then: str = "", values: tuple[Any, ...] = ()
    ) -> Iterator[dict[str, Any]]:
        if self._db is None:
            return
        try:
            yield from sqlite_rows.rows(self._db, table, names, then, values)
        except apsw.Error as problem:
            self._damaged(problem)

    def _damaged(self, problem: Exception) -> None:
        text = f"the store cannot be read: {' '.join(str(problem).split())}"
        damage = TranscriptProblem("store_damaged", text, {"path": self.path})
        if damage not in self._problems:
            self._problems.append(damage)


def blobs_path(index: str, agent: str) -> str:
    """Where the blobs of an agent are, beside the index."""
    name = hashlib.sha256(agent.encode()).hexdigest()
    return os.path.join(os.path.dirname(index), "agents", f"agent-{name}", "store.db")


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else b""


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
