"""What of a database with many sessions belongs to one of them: its rows, table by table."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import apsw

from holdfast import errors
from holdfast.history.snapshot import Kept, open_copy

DAMAGE = (apsw.Error, UnicodeDecodeError)

Key = tuple[Any, ...]
Values = dict[str, Any]


class Table(NamedTuple):
    """One table that has rows of a session."""

    name: str
    key: tuple[str, ...]
    owner: str | None = None  # the column with the session's id; without one, `where` tells its rows
    under: str | None = None  # put back only together with a row of that table, else it may go by itself
    where: str = ""
    loose: str | None = None  # names another row of this table, and is emptied where that is gone


class Row(NamedTuple):
    """One row; `values` are what `plain` makes of them."""

    table: str
    key: Key
    values: Values


class Share:
    """The rows of one session in one database, read from a private copy of it."""

    def __init__(self, database: str, native_id: str, tables: tuple[Table, ...], mine: str, kept: Kept):
        """`mine` selects the ids that are the session's, `?1` being its own; the first table has them."""
        self.database = database
        self.native_id = native_id
        self.tables = tables
        self._mine = mine
        self._kept = kept

    @property
    def own(self) -> tuple[str, Key]:
        """Where the session's own row is."""
        return self.tables[0].name, (self.native_id,)

    def is_lasting(self, table: str) -> bool:
        """Whether rows of that table stay for as long as the session does."""
        return any(known.name == table and known.under is None for known in self.tables)

    def rows(self) -> Iterator[Row]:
        """All its rows; apsw.Error if the database is damaged, StoreUnreadable if its tables are others."""
        with closing(open_copy(self._kept.copy(self.database).path)) as db:
            yield from self._rows_in(db)

    def _rows_in(self, db: apsw.Connection) -> Iterator[Row]:
        for table, names in self._known(db):
            told = ", ".join(f"typeof({quoted(name)}), {_exact(name)}" for name in names)
            where = table.where or f"{quoted(table.owner or '')} in mine"
            sql = f"with recursive mine(id) as ({self._mine}) select {told} from {table.name} where {where}"
            for found in db.execute(sql, (self.native_id,)):
                values = {
                    name: plain(kind, value)
                    for name, kind, value in zip(names, found[::2], found[1::2], strict=True)
                }
                yield Row(table.name, key_of(table, values), values)

    def _known(self, db: apsw.Connection) -> list[tuple[Table, list[str]]]:
        """The tables that this database has, with their columns; a copy without the lasting ones is none."""
        found = []
        for table in self.tables:
            names = columns(db, table.name)
            if set(table.key) <= set(names) and (table.owner is None or table.owner in names):
                found.append((table, names))
            elif table.under is None:
                raise errors.StoreUnreadable(f"{self.database} has no table {table.name} as it is known here")
        return found


def key_of(table: Table, values: Values) -> Key:
    """What no other row of the table has."""
    return tuple(_hashable(values.get(name)) for name in table.key)


def columns(db: apsw.Connection, table: str) -> list[str]:
    """The columns of a table that hold something; none if there is no such table."""
    return [str(found[1]) for found in db.execute(f"pragma table_info({table})")]


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def plain(kind: str, value: Any) -> Any:
    """A value as JSON can hold it, such that `exact` gives it back."""
    if kind == "text":
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"text": base64.b64encode(value).decode()}
    if kind == "blob":
        return {"blob": base64.b64encode(value).decode()}
    if kind == "real" and value in (float("inf"), float("-inf")):
        return {"real": str(value)}
    return value


def exact(value: Any) -> tuple[str, Any]:
    """The SQL and the value to insert."""
    if not isinstance(value, dict):
        return "?", value
    ((kind, told),) = value.items()
    if kind == "real":
        return "?", float(told)
    return ("cast(? as text)" if kind == "text" else "?"), base64.b64decode(told)


def _exact(name: str) -> str:
    column = quoted(name)
    return f"case typeof({column}) when 'text' then cast({column} as blob) else {column} end"


def _hashable(value: Any) -> Any:
    return tuple(value.items()) if isinstance(value, dict) else value
