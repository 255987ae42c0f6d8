"""The logical order of records that are not written in it: each behind its parent, else as in the file."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Sequence
from typing import NamedTuple


class Order(NamedTuple):
    """The numbers of all records in their logical order, and those whose parent had to be left out."""

    order: array[int]
    cut: list[int]  # one of each cycle


def logical(parents: Sequence[int]) -> Order:
    """Order records by the numbers of their parents (-1: none); a parent may come later, or never in a cycle.

    With `--bare`, a CLI writes replies before the prompt that they follow.
    """
    placed = bytearray(len(parents))
    order: array[int] = array("q")
    cut: list[int] = []
    waiting: dict[int, list[int]] = {}  # by parent: the children that came before it was placed
    above: dict[int, int] = {}  # of what waits: something above it that waits too, else itself
    for number, parent in enumerate(parents):
        free = number
        if parent >= 0 and not placed[parent]:
            waiting.setdefault(parent, []).append(number)
            free = _top(above, parent) if parent in above else number
            if parents[free] != number:  # else it waits for itself
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
    return Order(order, cut)


def _top(above: dict[int, int], number: int) -> int:
    top = number
    while above[top] != top:
        top = above[top]
    while above[number] != top:  # so that the next walk is short
        above[number], number = top, above[number]
    return top
