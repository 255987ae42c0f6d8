"""Two copies of one conversation put together: by what was said, not by how much. Values in, values out."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

DAY_S = 86_400.0
MOST_KEPT = 50  # messages that a compaction keeps at the beginning


class Item(NamedTuple):
    """As much of a message as is needed to know it again."""

    key: bytes
    at: float | None = None
    weak: bytes = b""  # by which a copy that lost its calls is known
    has_ids: bool = False


class Plan(NamedTuple):
    """How a second copy fits into a first."""

    pairs: dict[int, int]  # places in the second that are places in the first
    after: dict[int, list[int]]  # the rest of the second, each behind a place in the first; -1: before all


def plan(first: Sequence[Item], second: Sequence[Item]) -> Plan:
    """Which messages of the second copy the first has, and where the others belong.

    The n-th message that says something is the n-th in the other copy too; one that was said a day and
    more later is another. What only the second has stands behind what it stood behind there.
    """
    pairs = _pairs(first, second)
    steady = _rising([(mine, pairs[mine]) for mine in sorted(pairs)])
    after: dict[int, list[int]] = defaultdict(list)
    behind, follows = -1, iter(sorted(steady))
    anchor = next(follows, None)
    for mine in range(len(second)):
        if anchor is not None and mine >= anchor:
            behind, anchor = steady[anchor], next(follows, None)
        if mine not in pairs:
            after[behind].append(mine)
    if not steady and after and not _is_earlier(second, first):
        after = defaultdict(list, {len(first) - 1: after[-1]})
    return Plan(pairs, dict(after))


def copies(keys: Sequence[bytes], summaries: Sequence[int]) -> set[int]:
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


def _is_earlier(one: Sequence[Item], other: Sequence[Item]) -> bool:
    """Whether all of the one was said before the other, as far as their times tell."""
    ends, begins = [item.at for item in one if item.at], [item.at for item in other if item.at]
    return bool(ends and begins) and max(ends) <= min(begins)


def _pairs(first: Sequence[Item], second: Sequence[Item]) -> dict[int, int]:
    places: dict[bytes, list[int]] = defaultdict(list)
    for place in range(len(first) - 1, -1, -1):
        places[first[place].key].append(place)
    pairs = {}
    for mine, item in enumerate(second):
        waiting = places.get(item.key)
        while waiting:
            at = first[waiting[-1]].at
            if item.at is not None and at is not None and item.at > at + DAY_S:
                if len(waiting) == 1:
                    break  # a later one: it was said again
                waiting.pop()
                continue
            pairs[mine] = waiting.pop()
            break
    return _weak_pairs(first, second, pairs)


def _weak_pairs(first: Sequence[Item], second: Sequence[Item], pairs: dict[int, int]) -> dict[int, int]:
    """The pairs, with those of which one copy lost its calls: the same words, and ids in one of them only."""
    taken = set(pairs.values())
    places: dict[tuple[bytes, bool], list[int]] = defaultdict(list)
    for place in range(len(first) - 1, -1, -1):
        if first[place].weak and place not in taken:
            places[first[place].weak, first[place].has_ids].append(place)
    for mine, item in enumerate(second):
        if item.weak and mine not in pairs and (waiting := places.get((item.weak, not item.has_ids))):
            pairs[mine] = waiting.pop()
    return pairs


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
