"""Where a session works: whether that is still there, and on which branch."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

import msgspec

from holdfast.git import worktree
from holdfast.model.session import Session
from holdfast.model.task import Task
from holdfast.process import table as process_table
from holdfast.spool.task_dir import RELAY


class FolderState(msgspec.Struct, frozen=True):
    """The session's folder, then and now."""

    path: str | None = None
    there: bool = True
    worktree: bool = False  # it is a git worktree of the session's own
    was_on: str | None = None  # the branch at the end of the last task, or the worktree's own
    is_on: str | None = None


async def read_folder(session: Session, last: Task | None) -> FolderState:
    """Look at it; nothing is changed, also where a launch would put a worktree back."""
    own = session.worktree
    path = session.cwd if own is None else own.path
    if path is None:
        return FolderState()
    there = os.path.isdir(path)
    was = ((last.outcome or {}).get("branch") if last is not None else None) or (own.branch if own else None)
    now = await worktree.branch(path) if there and was is not None else None
    if own is not None and there:
        path = await worktree.folder_in(own, session.cwd or own.path)
    return FolderState(os.path.realpath(path), there, own is not None, was, now)


# --- The process table as a witness: what dead runs have left running.

DEAD = ("interrupted", "cancelled", "failed")  # how a run ends whose tools are nobody's any more


class LiveProcess(msgspec.Struct, frozen=True, order=True):
    """A process that is still there."""

    pid: int
    command: str

    def shown(self) -> str:
        """As a sentence names it."""
        words = self.command.split(" ", 1)
        line = " ".join([os.path.basename(words[0]), *words[1:]])
        return f"{line if len(line) <= 60 else line[:59] + '…'} ({self.pid})"


def tasks_of(processes: Collection[LiveProcess]) -> tuple[str, ...]:
    """The tasks whose mark these processes carry."""
    if not processes:
        return ()
    marks = process_table.marks(process_table.table())
    return tuple(sorted({marks[one.pid] for one in processes if one.pid in marks}))


class MarkedProcesses:
    """The process table at one moment, with the task that each process belongs to."""

    def __init__(self, table: process_table.Table, marks: Mapping[int, str]):
        self._table = table
        self._marks = marks

    @classmethod
    def read(cls) -> MarkedProcesses:
        """Read the process table now."""
        table = process_table.table()
        return cls(table, process_table.marks(table))

    def tasks(self) -> list[str]:
        """The tasks that living processes belong to."""
        return sorted(set(self._marks.values()))

    def of(self, tasks: Collection[str]) -> tuple[LiveProcess, ...]:
        """The processes that carry the mark of one of these tasks, and their descendants."""
        found: set[process_table.Process] = set()
        for task in tasks:
            found.update(process_table.belonging(self._table, self._marks, task, (), {os.getpid()}))
        return tuple(sorted(LiveProcess(p.pid, p.command) for p in found if not p.command.endswith(RELAY)))
