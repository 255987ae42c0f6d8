"""One conversation merged from all stores: the database, the sidecar, its backup."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Protocol

import msgspec

from holdfast.peers.hermes import journal, merge, shrink
from holdfast.peers.hermes.facts import HermesFacts
from holdfast.peers.hermes.messages import HermesMessage, has_ids

CLOCK_S = 2.0  # the times of one prompt differ by this much; the web UI cuts some to whole seconds


class MessageRows(Protocol):
    """Where the rows of a session are read from."""

    def row_ids(self, native_id: str) -> list[int]:
        """The session's rows in the order they were added."""
        ...

    def message(self, row: int) -> HermesMessage | None:
        """One row; None if it cannot be read."""
        ...


class HermesConversation:
    """The messages in order; the database is read once to plan the merge and once more for the messages."""

    def __init__(self, facts: HermesFacts, db: MessageRows | None, as_displayed: bool = False):
        """Plan the merge; only ids and digests of the rows are kept in memory.

        `as_displayed`: as the web UI would show it, without the rows that a compaction hid.
        """
        self.facts = facts
        self.as_displayed = as_displayed
        self.undone = 0  # rows that the user undid
        self.lost_rows = 0  # rows that cannot be read
        self.only_rows = 0  # messages that only the database has
        self.only_live = 0  # messages that only the sidecar has
        self.only_backup = 0  # messages that the backup has and the sidecar lacks
        self.repeats = 0  # partial answers in the sidecar that repeat the one before
        self.results: Counter[str] = Counter()  # for each call, how many results follow
        self._db = db
        self._side: list[HermesMessage] = []
        self._rows: list[int] = []
        self._undone_before: dict[int, int] = {}  # undone rows before a remaining row; -1: at the end
        self._plan = merge.MergePlan({}, {})
        self._pairs: dict[int, int] = {}  # position among the rows: position in the sidecar
        self._lost: set[int] = set()  # messages (by identity) that only the backup has
        if not facts.deleted:
            self._side = self._merge_sidecars()
            self._plan_rows()

    def messages(self) -> Iterator[HermesMessage | int]:
        """Every message once; a number says how many messages the user undid at that point."""
        yield from self._side_after(-1)
        for position, row in enumerate(self._rows):
            if undone := self._undone_before.get(row):
                yield undone
            message = self._db.message(row) if self._db is not None else None
            if message is not None:
                yield _completed(message, self._side_copy(position))
            yield from self._side_after(position)
        if undone := self._undone_before.get(-1):
            yield undone

    def copies(self) -> Iterator[tuple[HermesMessage | None, HermesMessage | None]]:
        """Every message once: its row, and its copy in a sidecar or backup; one of them may be missing."""
        for side in self._side_after(-1):
            yield None, side
        for position, row in enumerate(self._rows):
            message = self._db.message(row) if self._db is not None else None
            side_copy = self._side_copy(position)
            if message is not None or side_copy is not None:
                yield message, side_copy
            for side in self._side_after(position):
                yield None, side

    def has_messages(self) -> bool:
        """Whether any copy has a message."""
        return bool(self._rows or self._side)

    def open_turns(
        self, prompts: dict[str, list[float | None]]
    ) -> Iterator[tuple[journal.JournaledTurn, bool]]:
        """Turns that were accepted and never finished, and whether their prompt is among `prompts`.

        A turn in the sidecar and in its journal counts once. A turn whose stream is in the messages was
        recovered by the web UI itself.
        """
        facts, yielded = self.facts, set()
        recovered = {message.stream for message in self._side if message.stream}
        for turn in ([facts.pending] if facts.pending else []) + facts.turns:
            if turn.stream in yielded or (turn.stream and turn.stream in recovered):
                continue
            if turn.stream:
                yielded.add(turn.stream)
            has_prompt = _has_prompt(turn, prompts)
            if has_prompt and turn is not facts.pending:
                continue  # only its journal lacks the end; prompt and answer are messages
            yield turn, has_prompt

    def _merge_sidecars(self) -> list[HermesMessage]:
        facts = self.facts
        live = facts.live_messages
        self.repeats = len(facts.live.messages) - len(live) if facts.live.usable else 0
        if not facts.backup.usable or facts.shrink_reason:
            return live
        backup = facts.backup_messages
        if self.as_displayed and (until := shrink.kept_until(facts.live, facts.backup)) is not None:
            # The backup was written when the rest was removed: everything later is in the sidecar.
            backup = [message for message in backup if message.at is None or message.at <= until]
        if facts.live.state == "absent":
            return backup
        plan = merge.plan_merge(comparable_all(backup), comparable_all(live))
        old_to_new = {theirs: mine for mine, theirs in plan.pairs.items()}
        lost = [m for n, m in enumerate(backup) if n not in old_to_new and not m.marker]
        self.only_backup = len(lost)
        self._lost = {id(m) for m in lost}
        merged = [live[n] for n in plan.after.get(-1, ())]
        for position, message in enumerate(backup):
            merged.append(live[old_to_new[position]] if position in old_to_new else message)
            merged += [live[n] for n in plan.after.get(position, ())]
        return merged

    def _plan_rows(self) -> None:
        rows: list[int] = []
        items: list[merge.ComparableMessage] = []
        summaries: list[int] = []
        gone: list[tuple[int, int]] = []  # position among the remaining rows, row
        spoken: list[bool] = []
        results: list[str | None] = []
        undone: list[merge.ComparableMessage] = []
        if self._db is not None:
            for row in self._db.row_ids(self.facts.native_id):
                message = self._db.message(row)
                if message is None:
                    self.lost_rows += 1
                    continue
                if message.undone:
                    gone.append((len(rows), row))
                    undone.append(comparable(message))
                    continue
                if self.as_displayed and message.compacted:
                    continue
                if message.summary:
                    summaries.append(len(rows))
                rows.append(row)
                items.append(comparable(message))
                spoken.append(not message.summary)
                results.append(message.result_of if message.role == "tool" else None)
        repeated = (
            set() if self.as_displayed else merge.compaction_copies([item.key for item in items], summaries)
        )
        left = [n for n in range(len(rows)) if n not in repeated]
        self._drop_undone(undone, [items[n] for n in left])
        side = comparable_all(self._side)
        plan = merge.plan_merge([items[n] for n in left], side, rows=True)
        shared = set(plan.pairs.values())
        alone = [n for position, n in enumerate(left) if position not in shared]
        if cut := {alone[n] for n in self._removed_on_purpose([items[n] for n in alone])}:
            gone += [(n, rows[n]) for n in sorted(cut)]
            left = [n for n in left if n not in cut]
            plan = merge.plan_merge([items[n] for n in left], side, rows=True)
        self._rows = [rows[n] for n in left]
        self._plan = plan
        self.undone = len(gone)
        for position, _ in gone:
            at = bisect_left(left, position)
            following = rows[left[at]] if at < len(left) else -1
            self._undone_before[following] = self._undone_before.get(following, 0) + 1
        self._pairs = {theirs: mine for mine, theirs in plan.pairs.items()}
        self._count(left, spoken)
        self.results.update(result for n in left if (result := results[n]))
        only = [n for positions in plan.after.values() for n in positions]
        mine = [self._side[n] for n in only if id(self._side[n]) not in self._lost]
        self.only_live = len([m for m in mine if not m.marker and not m.stream])
        self.results.update(self._side[n].result_of or "" for n in only if self._side[n].role == "tool")

    def _drop_undone(
        self, undone: list[merge.ComparableMessage], rows: list[merge.ComparableMessage]
    ) -> None:
        """Messages that only the backup has and the user undid later stay undone."""
        lost = [n for n, message in enumerate(self._side) if id(message) in self._lost]
        if not self.as_displayed or not undone or not lost:
            return
        kept = set(merge.plan_merge(rows, comparable_all(self._side), rows=True).pairs)
        lost = [n for n in lost if n not in kept]
        pairs = merge.plan_merge(undone, [comparable(self._side[n]) for n in lost]).pairs
        dropped = {lost[n] for n in pairs}
        self.only_backup -= len(dropped)
        self._side = [message for n, message in enumerate(self._side) if n not in dropped]

    def _removed_on_purpose(self, items: list[merge.ComparableMessage]) -> set[int]:
        """Which of these rows, that no sidecar has, somebody removed on purpose."""
        facts, removed = self.facts, set()
        if (span := shrink.truncated_span(facts.live)) is not None:
            removed = {n for n, item in enumerate(items) if _is_inside(item.at, span)}
        if self.as_displayed and (until := shrink.compressed_until(facts.live)) is not None:
            removed |= {n for n, item in enumerate(items) if item.at is not None and item.at <= until}
        if facts.shrink_reason == "undo" or (facts.shrink_reason and self.as_displayed):
            backup = comparable_all(facts.backup_messages)
            kept = set(merge.plan_merge(backup, comparable_all(facts.live_messages)).pairs.values())
            gone = [item for n, item in enumerate(backup) if n not in kept]
            removed |= set(merge.plan_merge(items, gone).pairs.values())
        return removed

    def _count(self, left: list[int], spoken: list[bool]) -> None:
        """Count what only one store has; a torn backup does not count as a copy."""
        torn = self.facts.backup.state != "whole"
        for position, n in enumerate(left):
            side = self._side_copy(position)
            unreliable = side is not None and torn and id(side) in self._lost
            self.only_backup -= unreliable
            self.only_rows += (side is None or unreliable) and spoken[n]

    def _side_after(self, position: int) -> Iterator[HermesMessage]:
        for n in self._plan.after.get(position, ()):
            yield self._side[n]

    def _side_copy(self, position: int) -> HermesMessage | None:
        mine = self._pairs.get(position)
        return None if mine is None else self._side[mine]


def _completed(message: HermesMessage, side: HermesMessage | None) -> HermesMessage:
    """A row, completed with what only the sidecar's copy has."""
    if side is None:
        return message
    return msgspec.structs.replace(
        message,
        thinking=message.thinking or side.thinking,
        calls=message.calls or side.calls,
        marker=message.marker or side.marker,
    )


def _has_prompt(turn: journal.JournaledTurn, prompts: dict[str, list[float | None]]) -> bool:
    """Whether the prompt of a turn is a message: the same words, and not older than the turn."""
    times = prompts.get(turn.prompt.strip())
    if times is None:
        return not turn.prompt
    return any(at is None or turn.at is None or at >= turn.at - CLOCK_S for at in times)


def comparable_all(messages: list[HermesMessage]) -> list[merge.ComparableMessage]:
    """Messages in the form that a merge compares."""
    return [comparable(message) for message in messages]


def comparable(message: HermesMessage) -> merge.ComparableMessage:
    """One message in the form that a merge compares."""
    return merge.ComparableMessage(
        message.key, message.at, message.weak, has_ids(message), message.role == "user"
    )


def _is_inside(at: float | None, span: tuple[float, float]) -> bool:
    return at is not None and span[0] < at < span[1]
