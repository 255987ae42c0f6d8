"""Everything that was seen of one session, before anything is said about it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import msgspec

from holdfast.peers.hermes import (
    database_rows,
    inspect,
    journal,
    sessions_folder,
    sidecar,
    transcript,
    values,
)
from holdfast.peers.hermes import facts as found_facts
from holdfast.peers.hermes import facts as intent
from holdfast.peers.hermes.conversation import HermesConversation, MessageRows
from holdfast.peers.hermes.database import HermesDatabase
from holdfast.peers.hermes.facts import HermesFacts, read_facts
from holdfast.peers.hermes.layout import INDEX
from holdfast.peers.hermes.messages import HermesMessage
from holdfast.peers.hermes.sessions_folder import SessionsFolder
from holdfast.peers.hermes.sidecar import Sidecar


class SessionState(msgspec.Struct, kw_only=True):
    """One session, as its files and its database have it."""

    facts: HermesFacts
    rows: list[HermesMessage] = []  # of its database, taken-back ones included
    in_step: bool = False  # the rows, which were left out, say what the sidecar says, word for word
    entry: dict[str, Any] = {}  # what the index says of it
    may_be_deleted: bool = False  # the list of deleted sessions cannot be read
    has_child: bool = False  # another session goes on where it stopped
    now: float = 0.0

    @property
    def native_id(self) -> str:
        """Its id."""
        return self.facts.native_id

    def places(self, native_id: str) -> list[int]:
        """Its rows, for a story."""
        return list(range(len(self.rows)))

    def message(self, place: int) -> HermesMessage | None:
        """One of them."""
        return self.rows[place]

    def story(self) -> HermesConversation:
        """Its copies put together, without what a compaction put away."""
        return HermesConversation(self.facts, self, in_use=True)

    def without(self, backup: bool = False, rows: bool = False) -> SessionState:
        """As if there were no backup, or no rows."""
        facts = self.facts
        if backup:
            absent = Sidecar(path=facts.backup.path, state="absent")
            facts = msgspec.structs.replace(facts, backup=absent, why_shorter="")
        return msgspec.structs.replace(self, facts=facts, rows=[] if rows else self.rows)

    def with_live(self, live: Sidecar) -> SessionState:
        """As if that were its sidecar."""
        facts = self.facts
        why, pending = intent.shrink_reason(live, facts.backup), found_facts.pending_turn(live)
        changed = msgspec.structs.replace(facts, live=live, why_shorter=why, pending=pending)
        return msgspec.structs.replace(self, facts=changed)

    def turns(self) -> list[tuple[journal.JournaledTurn, bool]]:
        """Turns that were asked for and never settled, and whether their prompt is a message already."""
        if self.facts.pending is None and not self.facts.turns:
            return []
        found = self.story().open_turns(self._prompts())
        return [(turn, said) for turn, said in found if not self._was_taken_back(turn)]

    def is_fresh(self) -> bool:
        """Whether a turn began so lately that it may well be under way."""
        pending = self.facts.pending
        turns = [*self.facts.turns, *([pending] if pending else [])]
        return any(inspect.is_fresh(turn, self.now) for turn in turns)

    def _prompts(self) -> dict[str, list[float | None]]:
        """All prompts in any copy, those that were taken back too."""
        copies = [*self.rows]
        for side, source in ((self.facts.live, "sidecar"), (self.facts.backup, "backup")):
            copies += found_facts.sidecar_messages(side, source) if side.usable else []
        found: dict[str, list[float | None]] = {}
        for message in copies:
            if message.role == "user":
                found.setdefault(message.text.strip(), []).append(message.at)
        return found

    def _was_taken_back(self, turn: journal.JournaledTurn) -> bool:
        span, saved = intent.truncated_span(self.facts.live), self.facts.live.head.get("updated_at")
        if turn is self.facts.pending or span is None or turn.at is None:
            return False
        return span[0] < turn.at < span[1] and isinstance(saved, int | float) and turn.at <= saved


# --- Making the chart of a session: everything that there is of it, read and nothing said about it.


class SessionStateReader:
    """The stores of one install, open for reading."""

    def __init__(
        self, layout: SessionsFolder, opened: Iterable[tuple[str, HermesDatabase | None, str]], now: float
    ):
        self.layout = layout
        self.opened = list(opened)
        self.now = now
        self._usable = [db for _, db, _ in self.opened if db is not None and db.readable and db.known]
        self.deleted = found_facts.tombstones(layout)

    def knows(self, native_id: str) -> bool:
        """Whether a database has a row of it."""
        return any(db.header(native_id) is not None for db in self._usable)

    def ids(self) -> list[str]:
        """Every session that may be the web UI's: it has a file here, or a row says so."""
        others = self.layout.others()
        for db in self._usable:
            for own in db.ids("webui"):
                if self.layout.sidecar(own) is not None and not self.layout.has_sidecar(own):
                    others.add(own)
        return sorted([*self.layout.sidecars, *others]) if others else self.layout.sidecars

    def chart(self, native_id: str, full: bool = True) -> SessionState:
        """Everything that there is of a session; if not `full`, without rows that only repeat the sidecar."""
        having = [db for db in self._usable if db.header(native_id) is not None]
        said = [db for db in having if db.places(native_id)] if len(having) > 1 else having
        db = next(iter(said or having), None)
        facts = read_facts(self.layout, native_id, db, self.deleted or frozenset())
        facts.unknown_schema = db is None and len(self._usable) < len(self.opened)
        facts.consulted = db is not None or (bool(self._usable) and not facts.unknown_schema)
        facts.torn_runs = self._torn_runs(facts)
        in_step = not full and db is not None and _is_in_step(facts.live, db.said(native_id))
        told = [] if db is None or in_step else _rows(db, native_id)
        if not told and (found := transcript.find(self.layout, native_id, facts.live)) is not None:
            facts.transcript, in_step = found.path, False
            told = _rows(found, native_id)
        return SessionState(
            facts=facts,
            rows=told,
            in_step=in_step,
            may_be_deleted=self.deleted is None,
            entry={} if facts.live.state == "whole" else self._entries.get(native_id, {}),
            has_child=facts.pending is not None and native_id in self._parents,
            now=self.now,
        )

    def _torn_runs(self, facts: HermesFacts) -> int:
        torn = 0
        for path in self.layout.run_journals(facts.native_id):
            if os.path.basename(path)[: -len(".jsonl")] not in facts.runs:
                torn += sum(record is None for record in journal.read_lines(path))
        return torn

    @cached_property
    def _entries(self) -> dict[str, dict[str, Any]]:
        """What the index says, as far as a session is made again of it; read only if it matters."""
        told = sessions_folder.all_entries(self.layout) if INDEX in self.layout.listed else []
        return {
            own: {name: one[name] for name in database_rows.LISTED if name in one}
            for one in told
            if isinstance(one, dict) and (own := values.identifier(one.get("session_id")))
        }

    @cached_property
    def _parents(self) -> frozenset[str]:
        """The sessions that another one goes on from; read only if it matters."""
        paths = [self.layout.sidecar(own) for own in self.layout.sidecars]
        heads = (sidecar.load(path).head for path in paths if path is not None)
        return frozenset(
            parent for head in heads if (parent := values.identifier(head.get("parent_session_id")))
        )


def _rows(store: MessageRows, native_id: str) -> list[HermesMessage]:
    found = (store.message(place) for place in store.places(native_id))
    return [row for row in found if row is not None]


def _is_in_step(live: Sidecar, said: list[tuple[Any, Any]] | None) -> bool:
    """Whether all that was said stands in the sidecar from its beginning on."""
    if said is None or live.state != "whole" or len(said) > len(live.messages):
        return False
    told = live.messages[: len(said)]
    return all(
        isinstance(one, dict) and (one.get("role"), one.get("content")) == row
        for one, row in zip(told, said, strict=True)
    )
