"""Everything that was seen of one session, before anything is said about it."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.history.hermes import facts as found_facts
from holdfast.history.hermes import intent, journal, judge
from holdfast.history.hermes.facts import Facts
from holdfast.history.hermes.message import Message
from holdfast.history.hermes.sidecar import Sidecar
from holdfast.history.hermes.story import Story


class Chart(msgspec.Struct, kw_only=True):
    """One session, as its files and its database have it."""

    facts: Facts
    rows: list[Message] = []  # of its database, taken-back ones included
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

    def message(self, place: int) -> Message | None:
        """One of them."""
        return self.rows[place]

    def story(self) -> Story:
        """Its copies put together, without what a compaction put away."""
        return Story(self.facts, self, in_use=True)

    def without(self, backup: bool = False, rows: bool = False) -> Chart:
        """As if there were no backup, or no rows."""
        facts = self.facts
        if backup:
            absent = Sidecar(path=facts.backup.path, state="absent")
            facts = msgspec.structs.replace(facts, backup=absent, why_shorter="")
        return msgspec.structs.replace(self, facts=facts, rows=[] if rows else self.rows)

    def with_live(self, live: Sidecar) -> Chart:
        """As if that were its sidecar."""
        facts = self.facts
        why, pending = intent.of(live, facts.backup), found_facts.pending(live)
        changed = msgspec.structs.replace(facts, live=live, why_shorter=why, pending=pending)
        return msgspec.structs.replace(self, facts=changed)

    def turns(self) -> list[tuple[journal.Turn, bool]]:
        """Turns that were asked for and never settled, and whether their prompt is a message already."""
        if self.facts.pending is None and not self.facts.turns:
            return []
        found = self.story().open_turns(self._prompts())
        return [(turn, said) for turn, said in found if not self._was_taken_back(turn)]

    def is_fresh(self) -> bool:
        """Whether a turn began so lately that it may well be under way."""
        pending = self.facts.pending
        turns = [*self.facts.turns, *([pending] if pending else [])]
        return any(judge.is_fresh(turn, self.now) for turn in turns)

    def _prompts(self) -> dict[str, list[float | None]]:
        """All prompts in any copy, those that were taken back too."""
        copies = [*self.rows]
        for side, source in ((self.facts.live, "sidecar"), (self.facts.backup, "backup")):
            copies += found_facts.messages(side, source) if side.usable else []
        found: dict[str, list[float | None]] = {}
        for message in copies:
            if message.role == "user":
                found.setdefault(message.text.strip(), []).append(message.at)
        return found

    def _was_taken_back(self, turn: journal.Turn) -> bool:
        span, saved = intent.cut(self.facts.live), self.facts.live.head.get("updated_at")
        if turn is self.facts.pending or span is None or turn.at is None:
            return False
        return span[0] < turn.at < span[1] and isinstance(saved, int | float) and turn.at <= saved
