"""Which rows of a shared database belong to one session, and how are their values written as JSON?"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import apsw

from holdfast import errors
from holdfast.transcripts.sqlite_snapshot import SnapshotCache, open_copy

DAMAGE = (apsw.Error, UnicodeDecodeError)

Key = tuple[Any, ...]
Values = dict[str, Any]


class SessionTable(NamedTuple):
    """One table that holds rows of a session."""

    name: str
    key: tuple[str, ...]
    owner: str | None = None  # the column with the session's id; without one, `where` selects its rows
    # restored only together with a row of that table; otherwise it may be deleted alone
    under: str | None = None
    where: str = ""
    loose: str | None = None  # refers to another row of this table; set to null if that row is gone


class SessionRow(NamedTuple):
    """One row; `values` are in the form of `plain`."""

    table: str
    key: Key
    values: Values


class SessionRows:
    """The rows of one session in one database, read from a private copy of it."""

    def __init__(
        self,
        database: str,
        native_id: str,
        tables: tuple[SessionTable, ...],
        mine: str,
        snapshots: SnapshotCache,
    ):
        """`mine` selects the session's ids, where `?1` is its own id; they are ids of the first table."""
        self.database = database
        self.native_id = native_id
        self.tables = tables
        self._mine = mine
        self._kept = snapshots

    @property
    def own(self) -> tuple[str, Key]:
        """The position of the session's own row."""
        return self.tables[0].name, (self.native_id,)

    def is_lasting(self, table: str) -> bool:
        """Whether rows of that table exist for as long as the session does."""
        return any(known.name == table and known.under is None for known in self.tables)

    def rows(self) -> Iterator[SessionRow]:
        """All its rows.

        Raises apsw.Error if the database is damaged, StoreUnreadable if its tables are unknown.
        """
        with closing(open_copy(self._kept.copy(self.database).path)) as db:
            yield from self._rows_in(db)

    def _rows_in(self, db: apsw.Connection) -> Iterator[SessionRow]:
        for table, names in self._known(db):
            picked = ", ".join(f"typeof({quoted(name)}), {_exact(name)}" for name in names)
            where = table.where or f"{quoted(table.owner or '')} in mine"
            sql = f"with recursive mine(id) as ({self._mine}) select {picked} from {table.name} where {where}"
            for row in db.execute(sql, (self.native_id,)):
                values = {
                    name: to_json(kind, value)
                    for name, kind, value in zip(names, row[::2], row[1::2], strict=True)
                }
                yield SessionRow(table.name, key_of(table, values), values)

    def _known(self, db: apsw.Connection) -> list[tuple[SessionTable, list[str]]]:
        """The tables that this database has, with their columns; without the lasting ones it is unknown."""
        tables = []
        for table in self.tables:
            names = columns(db, table.name)
            if set(table.key) <= set(names) and (table.owner is None or table.owner in names):
                tables.append((table, names))
            elif table.under is None:
                raise errors.StoreUnreadable(f"{self.database} has no table {table.name} in a known form")
        return tables


def key_of(table: SessionTable, values: Values) -> Key:
    """The values that identify a row in its table."""
    return tuple(_hashable(values.get(name)) for name in table.key)


def columns(db: apsw.Connection, table: str) -> list[str]:
    """The stored columns of a table; empty if the table does not exist."""
    return [str(column[1]) for column in db.execute(f"pragma table_info({table})")]


def quoted(name: str) -> str:
    """A name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def to_json(kind: str, value: Any) -> Any:
    """A value in a form that JSON can hold; `exact` reverses it."""
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


def from_json(value: Any) -> tuple[str, Any]:
    """The SQL expression and the value to insert."""
    if not isinstance(value, dict):
        return "?", value
    ((kind, content),) = value.items()
    if kind == "real":
        return "?", float(content)
    return ("cast(? as text)" if kind == "text" else "?"), base64.b64decode(content)


def _exact(name: str) -> str:
    column = quoted(name)
    return f"case typeof({column}) when 'text' then cast({column} as blob) else {column} end"


def _hashable(value: Any) -> Any:
    return tuple(value.items()) if isinstance(value, dict) else value
