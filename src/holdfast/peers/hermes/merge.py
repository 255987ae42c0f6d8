"""Two copies of one conversation put together: by what was said, not by how much. Values in, values out."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from math import inf
from typing import NamedTuple

DAY_S = 86_400.0  # a time that is earlier by more is of a clock that goes wrong
SAME_S = 2.0  # by so much the times of a message differ in two files; some are cut to whole seconds
LATE_S = 60.0  # a sidecar's messages get their time when the turn is over, the agent's rows a bit earlier
MOST_KEPT = 50  # messages that a compaction keeps at the beginning


class ComparableMessage(NamedTuple):
    """As much of a message as is needed to know it again."""

    key: bytes
    at: float | None = None
    weak: bytes = b""  # by which a copy that lost its calls is known
    has_ids: bool = False
    asks: bool = False  # it is a prompt: what was said before it was stamped before it


Span = tuple[float, float]


class MergePlan(NamedTuple):
    """How a second copy fits into a first."""

    pairs: dict[int, int]  # places in the second that are places in the first
    after: dict[int, list[int]]  # the rest of the second, each behind a place in the first; -1: before all


def plan_merge(
    first: Sequence[ComparableMessage], second: Sequence[ComparableMessage], rows: bool = False
) -> MergePlan:
    """Which messages of the second copy the first has, and where the others belong.

    The n-th message that says something is the n-th in the other copy too, unless their times speak against
    it: "go on" is said again and again. `rows`: the first are an agent's rows, which have times of their own.
    What only the second has stands behind what it stood behind there, and what was said before it.
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
    if not steady and after:  # nothing in common: one behind the other
        alone = [mine for mine in range(len(second)) if mine not in pairs]
        early = _earlier(first, second)
        parts = {-1: alone[:early], len(first) - 1: alone[early:]} if first else {-1: alone}
        return MergePlan(pairs, {place: part for place, part in parts.items() if part})
    return MergePlan(pairs, dict(after))


def compaction_copies(keys: Sequence[bytes], summaries: Sequence[int]) -> set[int]:
    """Rows that only repeat earlier ones: a compaction adds a summary and, again, what it keeps.

    That is the beginning of the conversation before the summary, and its end behind it.
    """
    found: set[int] = set()
    for place in summaries:
        kept = 0
        for count in range(min(MOST_KEPT, place // 2), 0, -1):
            if list(keys[place - count : place]) == list(keys[:count]):
                kept = count
                break
        found.update(range(place - kept, place))
        before = place - kept
        length = _overlap(keys[place + 1 : place + 1 + before], keys[:before])
        found.update(range(place + 1, place + 1 + length))
    return found


def _is_before(one: ComparableMessage, other: ComparableMessage) -> bool:
    return one.at is not None and other.at is not None and one.at <= other.at


def _earlier(first: Sequence[ComparableMessage], second: Sequence[ComparableMessage]) -> int:
    """How many at the beginning of the second were said before all of the first, as far as times tell."""
    begins = min((item.at for item in first if item.at is not None), default=-inf)
    for place, item in enumerate(second):
        if item.at is None or item.at > begins:
            return place
    return len(second)


def _pairs(
    first: Sequence[ComparableMessage], second: Sequence[ComparableMessage], spans: Sequence[Span]
) -> dict[int, int]:
    always = [(-inf, inf)] * len(first)
    pairs = _matched(first, second, {}, always, lambda item, _: (item.key, item.at))
    pairs = _matched(first, second, pairs, spans, lambda item, _: item.key)
    # The same words, and ids in one of them only: that copy lost its calls.
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
    """The known pairs, and those of the rest that have one name and whose times do not speak against it."""
    pairs, taken = dict(known), set(known.values())
    places: dict[Hashable, list[int]] = defaultdict(list)
    for place in range(len(first) - 1, -1, -1):
        if place not in taken and (own := name(first[place], False)):
            places[own].append(place)
    for mine, item in enumerate(second):
        waiting = places.get(name(item, True)) if mine not in pairs else None
        while waiting:
            since, until = spans[waiting[-1]]
            if item.at is None or (item.at <= until and not since - DAY_S <= item.at < since):
                pairs[mine] = waiting.pop()
                break
            if item.at < since or len(waiting) == 1:
                break  # said again, later; or before all that are left
            waiting.pop()
    return pairs


def _moments(items: Sequence[ComparableMessage]) -> list[Span]:
    """When a copy of each message in another file of the web UI was said: at the same time."""
    return [(-inf, inf) if item.at is None else (item.at - SAME_S, item.at + SAME_S) for item in items]


def _turns(items: Sequence[ComparableMessage]) -> list[Span]:
    """When the web UI may have stamped its copy of each row: from the end of the turn before to the next."""
    begins: list[float] = []
    since = latest = -inf
    for item in items:
        since = latest if item.asks else since
        latest = max(latest, item.at) if item.at is not None else latest
        begins.append(since - SAME_S)
    found: list[Span] = []
    for item, since in zip(reversed(items), reversed(begins), strict=True):
        at = item.at
        found.append((-inf, inf) if at is None else (since, min(max(latest, at) + LATE_S, at + DAY_S)))
        latest = at if item.asks and at is not None else latest
    return found[::-1]


def _rising(pairs: list[tuple[int, int]]) -> dict[int, int]:
    """As many of the pairs as possible that are in the same order in both copies."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int | None] = []
    for n, (_, place) in enumerate(pairs):
        at = bisect_left(tails, place)
        tails[at : at + 1] = [place]
        ends[at : at + 1] = [n]
        before.append(ends[at - 1] if at else None)
    chosen = {}
    at_end: int | None = ends[-1] if ends else None
    while at_end is not None:
        mine, place = pairs[at_end]
        chosen[mine] = place
        at_end = before[at_end]
    return chosen


def _overlap(head: Sequence[bytes], tail: Sequence[bytes]) -> int:
    """How many at the beginning of the one are exactly the end of the other."""
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
