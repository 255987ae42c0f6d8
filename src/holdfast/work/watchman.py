"""Looks at the process table for all runs of a worker; a look costs milliseconds, so they share it."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from holdfast.process import tree
from holdfast.process.tree import Process


class Sight(NamedTuple):
    """The processes of this machine at one moment, and the task that each marked one belongs to."""

    table: dict[int, Process]
    marks: dict[int, str]


class Watchman:
    """One look at a time."""

    def __init__(self) -> None:
        self._sight = Sight({}, {})
        self._begun = -1e9
        self._lock = asyncio.Lock()

    async def look(self, since: float | None = None) -> Sight:
        """What was seen at `since` (monotonic) or later; by default from now on."""
        wanted = time.monotonic() if since is None else since
        async with self._lock:
            if self._begun < wanted:  # nobody has looked while we waited
                begun = time.monotonic()
                self._sight = await asyncio.to_thread(_see)
                self._begun = begun
        return self._sight


def _see() -> Sight:
    table = tree.table()
    return Sight(table, tree.marks(table))
