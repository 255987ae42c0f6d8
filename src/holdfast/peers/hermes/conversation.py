"""One conversation out of all stores: what the database has, what only a sidecar has, what a run had told."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Protocol

import msgspec

from holdfast.peers.hermes import facts as found_facts
from holdfast.peers.hermes import facts as intent
from holdfast.peers.hermes import journal, merge
from holdfast.peers.hermes.facts import HermesFacts
from holdfast.peers.hermes.messages import HermesMessage, has_ids

NEAR_S = 2.0  # a prompt's times in two places may differ by so much; the web UI cuts some to whole seconds


class MessageRows(Protocol):
    """Where a session's rows are read from."""

    def places(self, native_id: str) -> list[int]:
        """Its rows in the order they were added."""
        ...

    def message(self, place: int) -> HermesMessage | None:
        """One of them; None if it cannot be read."""
        ...


class HermesConversation:
    """The messages in their order; the database is read once for the plan and once more to tell it."""

    def __init__(self, facts: HermesFacts, db: MessageRows | None, in_use: bool = False):
        """Work out what belongs where; nothing of the database is held but ids and digests.

        `in_use`: as the web UI would show it, without the rows that a compaction put away.
        """
        self.facts = facts
        self.in_use = in_use
        self.undone = 0  # rows that the user took back
        self.lost_rows = 0  # rows that cannot be read
        self.only_rows = 0  # said in the database and not in the sidecar
        self.only_live = 0  # said in the sidecar and in no other store
        self.only_backup = 0  # said in the backup and not in the sidecar
        self.repeats = 0  # partial answers in the sidecar directly behind one that says the same
        self.results: Counter[str] = Counter()  # for each call, how many results will come
        self._db = db
        self._side: list[HermesMessage] = []
        self._rows: list[int] = []
        self._taken_back: dict[int, int] = {}  # rows gone in front of a row that is told; -1: at the end
        self._plan = merge.MergePlan({}, {})
        self._pairs: dict[int, int] = {}  # places among the rows: in the sidecar
        self._lost: set[int] = set()  # messages (by identity) that only the backup has
        if not facts.deleted:
            self._side = self._sidecars()
            self._plan_rows()

    def messages(self) -> Iterator[HermesMessage | int]:
        """Every message once; a number says how many the user took back at that place."""
        yield from self._sides(-1)
        for place, row in enumerate(self._rows):
            if gone := self._taken_back.get(row):
                yield gone
            message = self._db.message(row) if self._db is not None else None
            if message is not None:
                yield _completed(message, self._twin(place))
            yield from self._sides(place)
        if gone := self._taken_back.get(-1):
            yield gone

    def copies(self) -> Iterator[tuple[HermesMessage | None, HermesMessage | None]]:
        """Every message once: its row, and its copy in a sidecar or backup; one of them may be missing."""
        for side in self._sides(-1):
            yield None, side
        for place, row in enumerate(self._rows):
            message = self._db.message(row) if self._db is not None else None
            twin = self._twin(place)
            if message is not None or twin is not None:
                yield message, twin
            for side in self._sides(place):
                yield None, side

    def has_messages(self) -> bool:
        """Whether any copy has one."""
        return bool(self._rows or self._side)

    def open_turns(
        self, prompts: dict[str, list[float | None]]
    ) -> Iterator[tuple[journal.JournaledTurn, bool]]:
        """Turns that were asked for and never settled, and whether their prompt is among `prompts`.

        Those that the sidecar and its journal both tell are one. A turn whose stream is in the messages
        already was recovered by the web UI itself.
        """
        facts, seen = self.facts, set()
        recovered = {message.stream for message in self._side if message.stream}
        for turn in ([facts.pending] if facts.pending else []) + facts.turns:
            if turn.stream in seen or (turn.stream and turn.stream in recovered):
                continue
            if turn.stream:
                seen.add(turn.stream)
            said = _was_said(turn, prompts)
            if said and turn is not facts.pending:
                continue  # its journal lacks the end; what was asked and answered is there
            yield turn, said

    def _sidecars(self) -> list[HermesMessage]:
        facts = self.facts
        live = found_facts.sidecar_messages(facts.live, "sidecar") if facts.live.usable else []
        self.repeats = len(facts.live.messages) - len(live) if facts.live.usable else 0
        if not facts.backup.usable or facts.why_shorter:
            return live
        backup = found_facts.sidecar_messages(facts.backup, "backup")
        if self.in_use and (until := intent.kept_until(facts.live, facts.backup)) is not None:
            # The backup was made when the rest was taken away: all that came later is the sidecar's.
            backup = [message for message in backup if message.at is None or message.at <= until]
        if facts.live.state == "absent":
            return backup
        plan = merge.plan_merge(comparable_all(backup), comparable_all(live))
        old_to_new = {theirs: mine for mine, theirs in plan.pairs.items()}
        lost = [m for n, m in enumerate(backup) if n not in old_to_new and not m.marker]
        self.only_backup = len(lost)
        self._lost = {id(m) for m in lost}
        merged = [live[n] for n in plan.after.get(-1, ())]
        for place, message in enumerate(backup):
            merged.append(live[old_to_new[place]] if place in old_to_new else message)
            merged += [live[n] for n in plan.after.get(place, ())]
        return merged

    def _plan_rows(self) -> None:
        rows: list[int] = []
        items: list[merge.ComparableMessage] = []
        summaries: list[int] = []
        gone: list[tuple[int, int]] = []  # place among the rows that are left, row
        spoken: list[bool] = []
        results: list[str | None] = []
        undone: list[merge.ComparableMessage] = []
        if self._db is not None:
            for row in self._db.places(self.facts.native_id):
                message = self._db.message(row)
                if message is None:
                    self.lost_rows += 1
                    continue
                if message.undone:
                    gone.append((len(rows), row))
                    undone.append(comparable(message))
                    continue
                if self.in_use and message.compacted:
                    continue
                if message.summary:
                    summaries.append(len(rows))
                rows.append(row)
                items.append(comparable(message))
                spoken.append(not message.summary)
                results.append(message.result_of if message.role == "tool" else None)
        again = set() if self.in_use else merge.compaction_copies([item.key for item in items], summaries)
        left = [n for n in range(len(rows)) if n not in again]
        self._leave_out(undone, [items[n] for n in left])
        side = comparable_all(self._side)
        plan = merge.plan_merge([items[n] for n in left], side, rows=True)
        shared = set(plan.pairs.values())
        alone = [n for place, n in enumerate(left) if place not in shared]
        if cut := {alone[n] for n in self._taken_away([items[n] for n in alone])}:
            gone += [(n, rows[n]) for n in sorted(cut)]
            left = [n for n in left if n not in cut]
            plan = merge.plan_merge([items[n] for n in left], side, rows=True)
            shared = set(plan.pairs.values())
        self._rows = [rows[n] for n in left]
        self._plan = plan
        self.undone = len(gone)
        for place, _ in gone:
            at = bisect_left(left, place)
            following = rows[left[at]] if at < len(left) else -1
            self._taken_back[following] = self._taken_back.get(following, 0) + 1
        self._pairs = {theirs: mine for mine, theirs in plan.pairs.items()}
        self._count(left, spoken)
        self.results.update(result for n in left if (result := results[n]))
        only = [n for places in plan.after.values() for n in places]
        mine = [self._side[n] for n in only if id(self._side[n]) not in self._lost]
        self.only_live = len([m for m in mine if not m.marker and not m.stream])
        self.results.update(self._side[n].result_of or "" for n in only if self._side[n].role == "tool")

    def _leave_out(self, undone: list[merge.ComparableMessage], rows: list[merge.ComparableMessage]) -> None:
        """What only the backup has and the user took back since stays taken back."""
        lost = [n for n, message in enumerate(self._side) if id(message) in self._lost]
        if not self.in_use or not undone or not lost:
            return
        kept = set(merge.plan_merge(rows, comparable_all(self._side), rows=True).pairs)
        lost = [n for n in lost if n not in kept]
        found = merge.plan_merge(undone, [comparable(self._side[n]) for n in lost]).pairs
        back = {lost[n] for n in found}
        self.only_backup -= len(back)
        self._side = [message for n, message in enumerate(self._side) if n not in back]

    def _taken_away(self, items: list[merge.ComparableMessage]) -> set[int]:
        """Which of these rows, that no sidecar has, somebody meant to take away."""
        facts, found = self.facts, set()
        if (span := intent.truncated_span(facts.live)) is not None:
            found = {n for n, item in enumerate(items) if _is_inside(item.at, span)}
        if self.in_use and (until := intent.compressed_until(facts.live)) is not None:
            found |= {n for n, item in enumerate(items) if item.at is not None and item.at <= until}
        if facts.why_shorter == "undo" or (facts.why_shorter and self.in_use):
            live = found_facts.sidecar_messages(facts.live, "sidecar")
            backup = comparable_all(found_facts.sidecar_messages(facts.backup, "backup"))
            kept = set(merge.plan_merge(backup, comparable_all(live)).pairs.values())
            gone = [item for n, item in enumerate(backup) if n not in kept]
            found |= set(merge.plan_merge(items, gone).pairs.values())
        return found

    def _count(self, left: list[int], spoken: list[bool]) -> None:
        """What only one store has; a torn backup is no copy that can be counted on."""
        torn = self.facts.backup.state != "whole"
        for place, n in enumerate(left):
            twin = self._twin(place)
            lent = twin is not None and torn and id(twin) in self._lost
            self.only_backup -= lent
            self.only_rows += (twin is None or lent) and spoken[n]

    def _sides(self, place: int) -> Iterator[HermesMessage]:
        for n in self._plan.after.get(place, ()):
            yield self._side[n]

    def _twin(self, place: int) -> HermesMessage | None:
        mine = self._pairs.get(place)
        return None if mine is None else self._side[mine]


def _completed(message: HermesMessage, twin: HermesMessage | None) -> HermesMessage:
    """A row, with what only the sidecar's copy of it tells."""
    if twin is None:
        return message
    return msgspec.structs.replace(
        message,
        thinking=message.thinking or twin.thinking,
        calls=message.calls or twin.calls,
        marker=message.marker or twin.marker,
    )


def _was_said(turn: journal.JournaledTurn, prompts: dict[str, list[float | None]]) -> bool:
    """Whether the prompt of a turn is a message: the same words, not from before it was asked."""
    times = prompts.get(turn.prompt.strip())
    if times is None:
        return not turn.prompt
    return any(at is None or turn.at is None or at >= turn.at - NEAR_S for at in times)


def comparable_all(messages: list[HermesMessage]) -> list[merge.ComparableMessage]:
    """As much of messages as is needed to know them again."""
    return [comparable(message) for message in messages]


def comparable(message: HermesMessage) -> merge.ComparableMessage:
    """The same, of one."""
    return merge.ComparableMessage(
        message.key, message.at, message.weak, has_ids(message), message.role == "user"
    )


def _is_inside(at: float | None, span: tuple[float, float]) -> bool:
    return at is not None and span[0] < at < span[1]
