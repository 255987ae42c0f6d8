"""Values that SQLite returns without complaint and no statement of ours can use: wrong types, bad UTF-8.

`pragma integrity_check` compares trees and indexes; it does not look at the bytes of a text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import apsw

from holdfast.store.sqlite.sql import AS_BYTES

KEYS = {"session": "n", "log": "id", "token": "n", "task": "id", "meta": "name"}
SMALL_TABLES = ("meta", "session", "token", "task")
ANY_TYPE = frozenset({"metadata"})  # kept as bytes: what is not JSON there is shown and repaired on its own
MOST = 3  # places that are named


class BadValue(NamedTuple):
    """A column of a row that holds something else than it should."""

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
    """The first few values that are not what their columns hold."""
    found: list[BadValue] = []
    for table in tables:
        columns = _columns(db, table)
        if not columns:
            continue  # its absence is another check's finding
        found += _wrong_types(db, table, columns)
        if not _is_text(db, table, columns):
            found += itertools.islice(_bad_text(db, table, columns), MOST)
    return found[:MOST]


def _columns(db: apsw.Connection, table: str) -> list[_Column]:
    rows = db.execute(f"select name, lower(type), \"notnull\" or pk from pragma_table_info('{table}')")
    return [_Column(*row) for row in rows if row[0] not in ANY_TYPE]


def _wrong_types(db: apsw.Connection, table: str, columns: list[_Column]) -> Iterator[BadValue]:
    for column in columns:
        allowed = f"'{column.type}'" + ("" if column.required else ", 'null'")
        wrong = f"typeof({column.name}) not in ({allowed})"
        key = AS_BYTES.format(KEYS[table])
        for found, kind in db.execute(
            f"select {key}, typeof({column.name}) from {table} not indexed where {wrong} limit {MOST}"
        ):
            yield BadValue(table, _shown(found), column.name, f"is {kind}, not {column.type}")


def _is_text(db: apsw.Connection, table: str, columns: list[_Column]) -> bool:
    """Whether every text decodes; the driver does it, which is fast."""
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
                    yield BadValue(table, _shown(key), name, f"is not UTF-8 at byte {problem.start}")


def _shown(key: object) -> str:
    return key.decode(errors="backslashreplace") if isinstance(key, bytes) else str(key)
