"""One conversation out of all stores: what the database has, what only a sidecar has, what a run had told."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

import msgspec

from holdfast.history.hermes import facts as found_facts
from holdfast.history.hermes import intent, journal, merge
from holdfast.history.hermes.database import Database
from holdfast.history.hermes.facts import Facts
from holdfast.history.hermes.message import Message

NEAR_S = 2.0  # a prompt's times in two places may differ by so much; the web UI cuts some to whole seconds


class Story:
    """The messages in their order; the database is read once for the plan and once more to tell it."""

    def __init__(self, facts: Facts, db: Database | None):
        """Work out what belongs where; nothing of the database is held but ids and digests."""
        self.facts = facts
        self.undone = 0  # rows that the user took back
        self.lost_rows = 0  # rows that cannot be read
        self.only_rows = 0  # said in the database and not in the sidecar
        self.only_backup = 0  # said in the backup and not in the sidecar
        self.repeats = 0  # partial answers in the sidecar directly behind one that says the same
        self.results: Counter[str] = Counter()  # for each call, how many results will come
        self._db = db
        self._side: list[Message] = []
        self._rows: list[int] = []
        self._taken_back: dict[int, int] = {}  # rows gone in front of a row that is told; -1: at the end
        self._plan = merge.Plan({}, {})
        self._pairs: dict[int, int] = {}  # places among the rows: in the sidecar
        if not facts.deleted:
            self._side = self._sidecars()
            self._plan_rows()

    def messages(self) -> Iterator[Message | int]:
        """Every message once; a number says how many the user took back at that place."""
        yield from self._sides(-1)
        for place, row in enumerate(self._rows):
            if gone := self._taken_back.get(row):
                yield gone
            message = self._db.message(row) if self._db is not None else None
            if message is not None:
                yield self._completed(message, place)
            yield from self._sides(place)
        if gone := self._taken_back.get(-1):
            yield gone

    def open_turns(self, prompts: dict[str, list[float | None]]) -> Iterator[tuple[journal.Turn, bool]]:
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

    def _sidecars(self) -> list[Message]:
        facts = self.facts
        live = found_facts.messages(facts.live, "sidecar") if facts.live.usable else []
        self.repeats = len(facts.live.messages) - len(live) if facts.live.usable else 0
        if not facts.backup.usable or facts.why_shorter:
            return live
        backup = found_facts.messages(facts.backup, "backup")
        if facts.live.state == "absent":
            return backup
        plan = merge.plan(_items(backup), _items(live))
        old_to_new = {theirs: mine for mine, theirs in plan.pairs.items()}
        self.only_backup = len([n for n, m in enumerate(backup) if n not in old_to_new and not m.marker])
        merged = [live[n] for n in plan.after.get(-1, ())]
        for place, message in enumerate(backup):
            merged.append(live[old_to_new[place]] if place in old_to_new else message)
            merged += [live[n] for n in plan.after.get(place, ())]
        return merged

    def _plan_rows(self) -> None:
        rows: list[int] = []
        items: list[merge.Item] = []
        summaries: list[int] = []
        gone: list[tuple[int, int]] = []  # place among the rows that are left, row
        spoken: list[bool] = []
        results: list[str | None] = []
        if self._db is not None and self.facts.header is not None:
            for row in self._db.places(self.facts.native_id):
                message = self._db.message(row)
                if message is None:
                    self.lost_rows += 1
                    continue
                if message.undone:
                    gone.append((len(rows), row))
                    continue
                if message.summary:
                    summaries.append(len(rows))
                rows.append(row)
                items.append(merge.Item(message.key, message.at))
                spoken.append(not message.summary)
                results.append(message.result_of if message.role == "tool" else None)
        again = merge.copies([item.key for item in items], summaries)
        span = intent.cut(self.facts.live)
        side = _items(self._side)
        left = [n for n in range(len(rows)) if n not in again]
        plan = merge.plan([items[n] for n in left], side)
        shared = set(plan.pairs.values())
        if span is not None:
            cut = [n for place, n in enumerate(left) if place not in shared and _is_inside(items[n].at, span)]
            gone += [(n, rows[n]) for n in cut]
            dropped = set(cut)
            left = [n for n in left if n not in dropped]
            plan = merge.plan([items[n] for n in left], side)
            shared = set(plan.pairs.values())
        self._rows = [rows[n] for n in left]
        self._plan = plan
        self.undone = len(gone)
        for place, _ in gone:
            at = bisect_left(left, place)
            following = rows[left[at]] if at < len(left) else -1
            self._taken_back[following] = self._taken_back.get(following, 0) + 1
        self.only_rows = len([n for place, n in enumerate(left) if place not in shared and spoken[n]])
        self.results.update(result for n in left if (result := results[n]))
        alone = [n for places in plan.after.values() for n in places]
        self.results.update(self._side[n].result_of or "" for n in alone if self._side[n].role == "tool")
        self._pairs = {theirs: mine for mine, theirs in plan.pairs.items()}

    def _sides(self, place: int) -> Iterator[Message]:
        for n in self._plan.after.get(place, ()):
            yield self._side[n]

    def _completed(self, message: Message, place: int) -> Message:
        """A row, with what only the sidecar's copy of it tells."""
        mine = self._pairs.get(place)
        if mine is None:
            return message
        twin = self._side[mine]
        return msgspec.structs.replace(
            message,
            thinking=message.thinking or twin.thinking,
            calls=message.calls or twin.calls,
            marker=message.marker or twin.marker,
        )


def _was_said(turn: journal.Turn, prompts: dict[str, list[float | None]]) -> bool:
    """Whether the prompt of a turn is a message: the same words, not from before it was asked."""
    times = prompts.get(turn.prompt.strip())
    if times is None:
        return not turn.prompt
    return any(at is None or turn.at is None or at >= turn.at - NEAR_S for at in times)


def _items(messages: list[Message]) -> list[merge.Item]:
    return [merge.Item(message.key, message.at) for message in messages]


def _is_inside(at: float | None, span: tuple[float, float]) -> bool:
    return at is not None and span[0] < at < span[1]
