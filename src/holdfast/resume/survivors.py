"""The process table as a witness: what dead runs have left running."""

from __future__ import annotations

import os
from collections.abc import Collection

import msgspec

from holdfast.process import tree
from holdfast.spool.folder import RELAY

DEAD = ("interrupted", "cancelled", "failed")  # how a run ends whose tools are nobody's any more


class Process(msgspec.Struct, frozen=True, order=True):
    """A process that is still there."""

    pid: int
    command: str

    def shown(self) -> str:
        """As a sentence names it."""
        words = self.command.split(" ", 1)
        line = " ".join([os.path.basename(words[0]), *words[1:]])
        return f"{line if len(line) <= 60 else line[:59] + '…'} ({self.pid})"


def of_tasks(tasks: Collection[str]) -> tuple[Process, ...]:
    """The processes that carry the mark of one of these tasks, and what is below them."""
    if not tasks:
        return ()
    table = tree.table()
    marks = tree.marks(table)
    found: set[tree.Process] = set()
    for task in {mark for mark in marks.values() if mark in tasks}:
        found.update(tree.belonging(table, marks, task, (), {os.getpid()}))
    return tuple(sorted(Process(p.pid, p.command) for p in found if not p.command.endswith(RELAY)))
