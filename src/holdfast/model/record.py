"""Records: the log as it is stored and mirrored, bodies still as JSON text."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """One record of a log, the same in the database, in a mirror and in `fold`."""

    seq: int
    kind: str
    at: str
    task: str | None
    replayed: bool
    origin: str | None  # the Origin as JSON text
    spool: int | None  # on the last record of a commit: the task's spool offset after it
    last: bool  # the last record of its commit
    body: str  # JSON text
