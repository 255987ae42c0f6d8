"""Merges two copies of one conversation by content, not by length. A pure function of its inputs."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from math import inf
from typing import NamedTuple

DAY_S = 86_400.0  # a time that is earlier by more comes from a wrong clock
SAME_S = 2.0  # the times of one message differ by this much in two files; some are cut to whole seconds
LATE_S = 60.0  # a sidecar's messages get their time at the end of the turn, the agent's rows earlier
MAX_KEPT = 50  # messages that a compaction keeps at the start


class ComparableMessage(NamedTuple):
    """The parts of a message that identify it in another copy."""

    key: bytes
    at: float | None = None
    weak: bytes = b""  # identifies a copy that lost its calls
    has_ids: bool = False
    asks: bool = False  # it is a prompt: everything before it has an earlier time


Span = tuple[float, float]


class MergePlan(NamedTuple):
    """How a second copy fits into a first one."""

    pairs: dict[int, int]  # position in the second copy: the same message's position in the first
    after: dict[int, list[int]]  # other messages of the second, by the position they follow; -1: before all


def plan_merge(
    first: Sequence[ComparableMessage], second: Sequence[ComparableMessage], rows: bool = False
) -> MergePlan:
    """Which messages of the second copy the first copy has, and where the others belong.

    The n-th message with some content is the n-th in the other copy too, unless their times contradict it:
    "go on" is said many times. `rows`: the first copy is the agent's rows, which have times of their own. A
    message that only the second copy has follows the message that it follows there, and everything earlier.
    """
    pairs = _pairs(first, second, _turns(first) if rows else _moments(first))
    steady = _rising([(mine, pairs[mine]) for mine in sorted(pairs)])
    after: dict[int, list[int]] = defaultdict(list)
    behind, follows = -1, iter(sorted(steady))
    anchor = next(follows, None)
    for mine, item in enumerate(second):
        if anchor is not None and mine >= anchor:
            behind, anchor = steady[anchor], next(follows, None)
        if mine not in pairs:
            end = len(first) if anchor is None else steady[anchor]
            while behind + 1 < end and _is_before(first[behind + 1], item):
                behind += 1
            after[behind].append(mine)
    if not steady and after:  # nothing in common: one copy follows the other
        alone = [mine for mine in range(len(second)) if mine not in pairs]
        early = _earlier(first, second)
        parts = {-1: alone[:early], len(first) - 1: alone[early:]} if first else {-1: alone}
        return MergePlan(pairs, {position: part for position, part in parts.items() if part})
    return MergePlan(pairs, dict(after))


def compaction_copies(keys: Sequence[bytes], summaries: Sequence[int]) -> set[int]:
    """Rows that only repeat earlier ones: a compaction adds a summary and repeats what it keeps.

    That is the start of the conversation before the summary, and its end after it.
    """
    repeated: set[int] = set()
    for position in summaries:
        kept = 0
        for count in range(min(MAX_KEPT, position // 2), 0, -1):
            if list(keys[position - count : position]) == list(keys[:count]):
                kept = count
                break
        repeated.update(range(position - kept, position))
        before = position - kept
        length = _overlap(keys[position + 1 : position + 1 + before], keys[:before])
        repeated.update(range(position + 1, position + 1 + length))
    return repeated


def _is_before(first: ComparableMessage, second: ComparableMessage) -> bool:
    return first.at is not None and second.at is not None and first.at <= second.at


def _earlier(first: Sequence[ComparableMessage], second: Sequence[ComparableMessage]) -> int:
    """How many messages at the start of the second copy were said before all of the first, by their times."""
    start = min((item.at for item in first if item.at is not None), default=-inf)
    for position, item in enumerate(second):
        if item.at is None or item.at > start:
            return position
    return len(second)


def _pairs(
    first: Sequence[ComparableMessage], second: Sequence[ComparableMessage], spans: Sequence[Span]
) -> dict[int, int]:
    always = [(-inf, inf)] * len(first)
    pairs = _matched(first, second, {}, always, lambda item, _: (item.key, item.at))
    pairs = _matched(first, second, pairs, spans, lambda item, _: item.key)
    # The same words, and only one of them has ids: the other copy lost its calls.
    return _matched(
        first, second, pairs, spans, lambda item, mine: item.weak and (item.weak, item.has_ids is not mine)
    )


def _matched(
    first: Sequence[ComparableMessage],
    second: Sequence[ComparableMessage],
    known: dict[int, int],
    spans: Sequence[Span],
    name: Callable[[ComparableMessage, bool], Hashable],
) -> dict[int, int]:
    """The known pairs, and pairs of the rest that have the same name and no contradicting times."""
    pairs, taken = dict(known), set(known.values())
    positions: dict[Hashable, list[int]] = defaultdict(list)
    for position in range(len(first) - 1, -1, -1):
        if position not in taken and (key := name(first[position], False)):
            positions[key].append(position)
    for mine, item in enumerate(second):
        waiting = positions.get(name(item, True)) if mine not in pairs else None
        while waiting:
            since, until = spans[waiting[-1]]
            if item.at is None or (item.at <= until and not since - DAY_S <= item.at < since):
                pairs[mine] = waiting.pop()
                break
            if item.at < since or len(waiting) == 1:
                break  # said again later, or before all that are left
            waiting.pop()
    return pairs


def _moments(items: Sequence[ComparableMessage]) -> list[Span]:
    """When a message was said according to another file of the web UI: at the same time."""
    return [(-inf, inf) if item.at is None else (item.at - SAME_S, item.at + SAME_S) for item in items]


def _turns(items: Sequence[ComparableMessage]) -> list[Span]:
    """When the web UI may have stamped its copy of each row: between the previous turn's end and the next."""
    starts: list[float] = []
    since = latest = -inf
    for item in items:
        since = latest if item.asks else since
        latest = max(latest, item.at) if item.at is not None else latest
        starts.append(since - SAME_S)
    spans: list[Span] = []
    for item, since in zip(reversed(items), reversed(starts), strict=True):
        at = item.at
        spans.append((-inf, inf) if at is None else (since, min(max(latest, at) + LATE_S, at + DAY_S)))
        latest = at if item.asks and at is not None else latest
    return spans[::-1]


def _rising(pairs: list[tuple[int, int]]) -> dict[int, int]:
    """The most pairs that have the same order in both copies."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int | None] = []
    for n, (_, position) in enumerate(pairs):
        at = bisect_left(tails, position)
        tails[at : at + 1] = [position]
        ends[at : at + 1] = [n]
        before.append(ends[at - 1] if at else None)
    chosen = {}
    at_end: int | None = ends[-1] if ends else None
    while at_end is not None:
        mine, position = pairs[at_end]
        chosen[mine] = position
        at_end = before[at_end]
    return chosen


def _overlap(head: Sequence[bytes], tail: Sequence[bytes]) -> int:
    """How many at the start of one are exactly the end of the other."""
    if not head or not tail:
        return 0
    joined = [*head, b"", *tail[-len(head) :]]  # no key is empty
    reach = [0] * len(joined)
    for n in range(1, len(joined)):
        length = reach[n - 1]
        while length and joined[n] != joined[length]:
            length = reach[length - 1]
        reach[n] = length + (joined[n] == joined[length])
    return min(reach[-1], len(head))
