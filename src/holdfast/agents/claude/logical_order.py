"""The logical order of records: each after its parent, otherwise as in the file."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Sequence
from typing import NamedTuple


class LogicalOrder(NamedTuple):
    """All record numbers in logical order, and those whose parent link was cut."""

    order: array[int]
    cut: list[int]  # one of each cycle


def logical_order(parents: Sequence[int]) -> LogicalOrder:
    """Order records by their parents' numbers (-1: none). A parent may come later, or never in a cycle.

    With `--bare`, a CLI writes replies before the prompt that they follow.
    """
    placed = bytearray(len(parents))
    order: array[int] = array("q")
    cut: list[int] = []
    waiting: dict[int, list[int]] = {}  # parent -> children that came before it
    above: dict[int, int] = {}  # waiting record -> a waiting record above it, else itself
    for number, above_it in enumerate(parents):
        free = number
        if above_it >= 0 and not placed[above_it]:
            waiting.setdefault(above_it, []).append(number)
            free = _top(above, above_it) if above_it in above else number
            if parents[free] != number:  # otherwise it waits for itself
                above[number] = free
                for child in waiting.get(number, ()):
                    above[child] = free
                continue
            waiting[number].remove(free)
            cut.append(free)
        ready = [free]
        while ready:
            now = heapq.heappop(ready)
            placed[now] = 1
            order.append(now)
            above.pop(now, None)
            for child in waiting.pop(now, ()):
                heapq.heappush(ready, child)
    return LogicalOrder(order, cut)


def _top(above: dict[int, int], number: int) -> int:
    top = number
    while above[top] != top:
        top = above[top]
    while above[number] != top:  # path compression
        above[number], number = top, above[number]
    return top
