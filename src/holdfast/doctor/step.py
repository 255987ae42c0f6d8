"""The few kinds of things that a doctor does: put or remove a file, or change rows in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.doctor.mark import Mark

Value = str | int | float | None


class FileStep(msgspec.Struct, frozen=True, kw_only=True):
    """A file's bytes become others; only if they are still what they were."""

    path: str
    before: Mark | None  # None: there is no such file, and it is made by create-or-fail
    content: Callable[[], bytes] | None  # what it shall hold, asked once; None: the file goes away
    findings: tuple[str, ...] = ()  # the ids of what this mends
    says: str = ""  # a name for the content that changes when it does; else the findings must tell

    def identity(self) -> bytes:
        """What the plan's fingerprint takes of it."""
        kind = "remove" if self.content is None else "put"
        before = self.before and (self.before.sha256, self.before.size)
        return msgspec.json.encode([kind, before, self.findings, self.says])


class Statement(msgspec.Struct, frozen=True):
    """One change of rows; the transaction is taken back if it changes another number of them."""

    sql: str
    values: Sequence[Value] = ()
    rows: int = 1


class Check(msgspec.Struct, frozen=True):
    """A query, and what it gives once the change is made."""

    sql: str
    values: Sequence[Value]
    expected: Sequence[Sequence[Value]]


class DatabaseStep(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a SQLite database change, all in one transaction or none.

    Statements must name the values that they replace, so that a change made meanwhile is seen.
    The checks tell from the rows alone whether the change is made.
    """

    path: str
    statements: Sequence[Statement]
    checks: Sequence[Check]
    findings: tuple[str, ...] = ()

    def identity(self) -> bytes:
        """What the plan's fingerprint takes of it."""
        shown: Any = [(s.sql, s.values, s.rows) for s in self.statements]
        return msgspec.json.encode(["rows", shown, self.findings])


Step = FileStep | DatabaseStep
