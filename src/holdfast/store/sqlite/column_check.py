"""Which values does SQLite return without an error that no statement can use? Wrong types, bad UTF-8.

`pragma integrity_check` checks trees and indexes, not the bytes of a text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import apsw

from holdfast.store.sqlite.sql import AS_BYTES

KEYS = {"session": "n", "log": "id", "token": "n", "task": "id", "meta": "name"}
SMALL_TABLES = ("meta", "session", "token", "task")
ANY_TYPE = frozenset({"metadata"})  # stored as bytes; a repair of its own handles what is not JSON
MOST = 3  # values that are reported


class BadValue(NamedTuple):
    """A column of a row with an invalid value."""

    table: str
    key: str
    column: str
    problem: str

    def __str__(self) -> str:
        return f"{self.column} of {self.table} {self.key} {self.problem}"


class _Column(NamedTuple):
    name: str
    type: str
    required: bool


def bad_values(db: apsw.Connection, tables: tuple[str, ...] = (*SMALL_TABLES, "log")) -> list[BadValue]:
    """The first few values that do not match their columns."""
    bad: list[BadValue] = []
    for table in tables:
        columns = _columns(db, table)
        if not columns:
            continue  # another check reports a missing table
        bad += _wrong_types(db, table, columns)
        if not _is_text(db, table, columns):
            bad += itertools.islice(_bad_text(db, table, columns), MOST)
    return bad[:MOST]


def _columns(db: apsw.Connection, table: str) -> list[_Column]:
    rows = db.execute(f"select name, lower(type), \"notnull\" or pk from pragma_table_info('{table}')")
    return [_Column(*row) for row in rows if row[0] not in ANY_TYPE]


def _wrong_types(db: apsw.Connection, table: str, columns: list[_Column]) -> Iterator[BadValue]:
    for column in columns:
        allowed = f"'{column.type}'" + ("" if column.required else ", 'null'")
        wrong = f"typeof({column.name}) not in ({allowed})"
        key = AS_BYTES.format(KEYS[table])
        for row, kind in db.execute(
            f"select {key}, typeof({column.name}) from {table} not indexed where {wrong} limit {MOST}"
        ):
            yield BadValue(table, _printable(row), column.name, f"is {kind}, not {column.type}")


def _is_text(db: apsw.Connection, table: str, columns: list[_Column]) -> bool:
    """Whether every text is UTF-8. The driver decodes them, which is fast."""
    names = ", ".join(column.name for column in columns if column.type == "text")
    try:
        for _ in db.execute(f"select {names} from {table} not indexed"):
            pass
    except UnicodeDecodeError:
        return False
    return True


def _bad_text(db: apsw.Connection, table: str, columns: list[_Column]) -> Iterator[BadValue]:
    names = [column.name for column in columns if column.type == "text"]
    values = ", ".join(AS_BYTES.format(name) for name in (KEYS[table], *names))
    for key, *row in db.execute(f"select {values} from {table} not indexed"):
        for name, value in zip(names, row, strict=True):
            if isinstance(value, bytes):
                try:
                    value.decode()
                except UnicodeDecodeError as problem:
                    yield BadValue(table, _printable(key), name, f"is not UTF-8 at byte {problem.start}")


def _printable(key: object) -> str:
    return key.decode(errors="backslashreplace") if isinstance(key, bytes) else str(key)
