"""Everything that is stored about one session, read before anything is judged or repaired."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import msgspec

from holdfast.peers.hermes import (
    database_rows,
    facts,
    findings,
    inspect,
    journal,
    sessions_folder,
    shrink,
    sidecar,
    transcript,
    values,
)
from holdfast.peers.hermes.conversation import HermesConversation, MessageRows
from holdfast.peers.hermes.database import HermesDatabase
from holdfast.peers.hermes.facts import HermesFacts
from holdfast.peers.hermes.layout import INDEX
from holdfast.peers.hermes.messages import HermesMessage
from holdfast.peers.hermes.sessions_folder import SessionsFolder
from holdfast.peers.hermes.sidecar import Sidecar
from holdfast.transcripts.reader import TranscriptProblem

OpenTurn = tuple[journal.JournaledTurn, bool]  # the turn, and whether its prompt is a message already


class SessionState(msgspec.Struct, kw_only=True, dict=True):
    """One session as its files and its database record it.

    A state does not change: a repair derives other states from it. So what follows from a state is
    computed once, however often it is asked for.
    """

    facts: HermesFacts
    rows: list[HermesMessage] = []  # from its database, undone ones included
    rows_skipped: bool = False  # the rows repeat the sidecar word for word, so they were not read
    entry: dict[str, Any] = {}  # its entry in the index
    may_be_deleted: bool = False  # the list of deleted sessions cannot be read
    has_child: bool = False  # another session continues from it
    now: float = 0.0

    @property
    def native_id(self) -> str:
        """The session's id."""
        return self.facts.native_id

    def row_ids(self, native_id: str) -> list[int]:
        """Its rows, for a conversation."""
        return list(range(len(self.rows)))

    def message(self, row: int) -> HermesMessage | None:
        """One of its rows."""
        return self.rows[row]

    @cached_property
    def conversation(self) -> HermesConversation:
        """All copies merged, without the rows that a compaction hid."""
        return HermesConversation(self.facts, self, as_displayed=True)

    @cached_property
    def problems(self) -> list[TranscriptProblem]:
        """Everything that is wrong with it; problems of the folder as a whole are found elsewhere."""
        turns = [turn for turn, _ in self.open_turns if not inspect.is_fresh(turn, self.now)]
        return findings.session_problems(self.facts, self._compared, turns, self.now)

    @cached_property
    def open_turns(self) -> list[OpenTurn]:
        """Turns that were accepted and never finished."""
        if self.facts.pending is None and not self.facts.turns:
            return []
        turns = self.conversation.open_turns(self._prompts())
        return [(turn, has_prompt) for turn, has_prompt in turns if not self._was_undone(turn)]

    def without(self, backup: bool = False, rows: bool = False) -> SessionState:
        """The state without its backup, or without its rows."""
        drops_backup = backup and self.facts.backup.state != "absent"
        drops_rows = rows and bool(self.rows)
        if not drops_backup and not drops_rows:
            return self
        key = (drops_backup, drops_rows)
        if key not in self._reduced:
            kept = self.facts
            if drops_backup:
                absent = Sidecar(path=kept.backup.path, state="absent")
                kept = msgspec.structs.replace(kept, backup=absent, shrink_reason="")
            self._reduced[key] = msgspec.structs.replace(
                self, facts=kept, rows=[] if drops_rows else self.rows
            )
        return self._reduced[key]

    def with_live(self, live: Sidecar) -> SessionState:
        """The state with another sidecar."""
        reason, pending = shrink.shrink_reason(live, self.facts.backup), facts.pending_turn(live)
        changed = msgspec.structs.replace(self.facts, live=live, shrink_reason=reason, pending=pending)
        return msgspec.structs.replace(self, facts=changed)

    def may_be_running(self) -> bool:
        """Whether a turn started so recently that it may still be running."""
        pending = self.facts.pending
        turns = [*self.facts.turns, *([pending] if pending else [])]
        return any(inspect.is_fresh(turn, self.now) for turn in turns)

    @property
    def _compared(self) -> HermesConversation:
        """The conversation to compare copies with; a single copy without repeats needs no comparison."""
        live = self.facts.live
        single = not self.rows and self.facts.backup.state == "absent" and live.state == "whole"
        if single and not any(isinstance(raw, dict) and raw.get("_partial") for raw in live.messages):
            absent = Sidecar(path=live.path, state="absent")
            return HermesConversation(msgspec.structs.replace(self.facts, live=absent), None)
        return self.conversation

    @cached_property
    def _reduced(self) -> dict[tuple[bool, bool], SessionState]:
        return {}

    def _prompts(self) -> dict[str, list[float | None]]:
        """The times of every prompt in any copy, undone prompts included."""
        times: dict[str, list[float | None]] = {}
        for message in (*self.rows, *self.facts.live_messages, *self.facts.backup_messages):
            if message.role == "user":
                times.setdefault(message.text.strip(), []).append(message.at)
        return times

    def _was_undone(self, turn: journal.JournaledTurn) -> bool:
        span, saved = shrink.truncated_span(self.facts.live), self.facts.live.head.get("updated_at")
        if turn is self.facts.pending or span is None or turn.at is None:
            return False
        return span[0] < turn.at < span[1] and isinstance(saved, int | float) and turn.at <= saved


class SessionStateReader:
    """Reads the state of sessions from the open stores of one install."""

    def __init__(
        self, layout: SessionsFolder, opened: Iterable[tuple[str, HermesDatabase | None, str]], now: float
    ):
        self.layout = layout
        self.opened = list(opened)
        self.now = now
        self._usable = [db for _, db, _ in self.opened if db is not None and db.readable and db.known]
        self.deleted = facts.tombstones(layout)

    def knows(self, native_id: str) -> bool:
        """Whether a database has a row of the session."""
        return any(db.header(native_id) is not None for db in self._usable)

    def ids(self) -> list[str]:
        """Every session of the web UI: it has a file here, or its row names the web UI as its source."""
        others = self.layout.others()
        for db in self._usable:
            for own in db.ids("webui"):
                if self.layout.sidecar(own) is not None and not self.layout.has_sidecar(own):
                    others.add(own)
        return sorted([*self.layout.sidecars, *others]) if others else self.layout.sidecars

    def read(self, native_id: str, full: bool = True) -> SessionState:
        """The state of one session; unless `full`, without rows that only repeat the sidecar."""
        having = [db for db in self._usable if db.header(native_id) is not None]
        filled = [db for db in having if db.row_ids(native_id)] if len(having) > 1 else having
        db = next(iter(filled or having), None)
        own = facts.read_facts(self.layout, native_id, db, self.deleted or frozenset())
        own.unknown_schema = db is None and len(self._usable) < len(self.opened)
        own.database_answered = db is not None or (bool(self._usable) and not own.unknown_schema)
        own.torn_runs = self._torn_runs(own)
        skip = not full and db is not None and _repeats(own.live, db.role_and_content(native_id))
        rows = [] if db is None or skip else _read_rows(db, native_id)
        if not rows and (replacement := transcript.find(self.layout, native_id, own.live)) is not None:
            own.transcript, skip = replacement.path, False
            rows = _read_rows(replacement, native_id)
        return SessionState(
            facts=own,
            rows=rows,
            rows_skipped=skip,
            may_be_deleted=self.deleted is None,
            entry={} if own.live.state == "whole" else self._entries.get(native_id, {}),
            has_child=own.pending is not None and native_id in self._parents,
            now=self.now,
        )

    def _torn_runs(self, own: HermesFacts) -> int:
        torn = 0
        for path in self.layout.run_journals(own.native_id):
            if os.path.basename(path)[: -len(".jsonl")] not in own.runs:
                torn += sum(record is None for record in journal.read_lines(path))
        return torn

    @cached_property
    def _entries(self) -> dict[str, dict[str, Any]]:
        """The index entries, reduced to what a rebuilt session takes from them; read on first use."""
        listed = sessions_folder.all_entries(self.layout) if INDEX in self.layout.listed else []
        return {
            own: {name: entry[name] for name in database_rows.LISTED if name in entry}
            for entry in listed
            if isinstance(entry, dict) and (own := values.identifier(entry.get("session_id")))
        }

    @cached_property
    def _parents(self) -> frozenset[str]:
        """The sessions that another session continues from; read on first use."""
        paths = [self.layout.sidecar(own) for own in self.layout.sidecars]
        heads = (sidecar.load(path).head for path in paths if path is not None)
        return frozenset(
            parent for head in heads if (parent := values.identifier(head.get("parent_session_id")))
        )


def _read_rows(store: MessageRows, native_id: str) -> list[HermesMessage]:
    rows = (store.message(row) for row in store.row_ids(native_id))
    return [row for row in rows if row is not None]


def _repeats(live: Sidecar, rows: list[tuple[Any, Any]] | None) -> bool:
    """Whether the sidecar starts with exactly the messages of the rows."""
    if rows is None or live.state != "whole" or len(rows) > len(live.messages):
        return False
    return all(
        isinstance(raw, dict) and (raw.get("role"), raw.get("content")) == row
        for raw, row in zip(live.messages[: len(rows)], rows, strict=True)
    )
