"""A copy of OpenCode's database, read row by row; a damaged page costs what is on it, and no more.

Accounts, credentials and shares are in the same file and are never asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import apsw
import msgspec

from holdfast import timestamps
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl as wire
from holdfast.transcripts.jsonl import LONGEST
from holdfast.transcripts.sqlite_snapshot import open_copy

LONGEST_NAME = 1000  # characters of a title or a path


class OpenCodeSession(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `session`, as far as it matters."""

    id: str
    directory: str | None = None
    title: str | None = None
    parent: str | None = None
    updated_at: str | None = None
    reverted: str | None = None  # the message from which on the user took everything back


class OpenCodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message or a part: what its JSON says, or a notice of what stands there instead."""

    id: str
    made: Any = None  # milliseconds, as the column has them
    changed: Any = None
    data: dict[str, Any] = {}
    odd: NewEvent | None = None

    @property
    def created(self) -> str | None:
        """When it was first written."""
        return timestamps.of_millis(self.made)

    @property
    def updated(self) -> str | None:
        """When it was last written."""
        return timestamps.of_millis(self.changed)


def session(row: tuple[Any, ...]) -> OpenCodeSession:
    """Of the columns id, directory, title, parent_id, time_updated, revert."""
    id, directory, title, parent, updated, revert = row
    told = wire.parse(revert) if isinstance(revert, bytes) else {}
    return OpenCodeSession(
        id=text(id),
        directory=name(directory),
        title=name(title),
        parent=name(parent),
        updated_at=timestamps.of_millis(updated),
        reverted=wire.word(told, "messageID") or None if isinstance(told, dict) else None,
    )


def row(id: Any, created: Any, updated: Any, size: Any, data: Any) -> OpenCodeRow:
    """Of columns of `message` or `part`; `data` is missing where it is larger than we take."""
    odd: NewEvent | None = None
    value: dict[str, Any] | NewEvent
    if isinstance(data, bytes):
        value = wire.parse(data)
    else:
        value = wire.notice_event(
            "too_long", f"a record of {size} bytes was left in the database", bytes=size
        )
    if isinstance(value, NewEvent):
        odd, value = value, {}
    return OpenCodeRow(id=text(id), made=created, changed=updated, data=value, odd=odd)


def lost(table: str, number: int, problem: Exception | str) -> OpenCodeRow:
    """What stands for a row that cannot be read."""
    why = " ".join(str(problem).split())
    return OpenCodeRow(
        id="", odd=wire.notice_event("store_damaged", f"a row of {table} cannot be read: {why}", row=number)
    )


def text(value: Any) -> str:
    """A column that should be text, as bytes or as SQLite gave it."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "" if value is None else str(value)


def name(value: Any) -> str | None:
    """A short text without anything that a header cannot hold."""
    told = text(value).replace("\0", "")[:LONGEST_NAME]
    return told or None


# --- A copy of OpenCode's database, read row by row; a damaged page costs what is on it, and no more.

DAMAGE = (apsw.Error, UnicodeDecodeError)
_NEEDED = {
    "session": ("id",),
    "message": ("id", "session_id", "data"),
    "part": ("id", "message_id", "data"),
}
_NEAR = 256  # rows behind a damage that are tried one by one; then the steps double
_LAST_ROW = 1 << 62

_Values: TypeAlias = tuple[Any, ...]


class UnknownOpenCodeSchema(Exception):
    """That database has not the tables that OpenCode's has."""


class OpenCodeDatabase:
    """One connection; `damage` is what could not be read so far."""

    def __init__(self, copy: str):
        self.damage: list[str] = []
        self._db = open_copy(copy)
        try:
            self._columns = {name: self._columns_of(name) for name in (*_NEEDED, "event", "session_message")}
            for table, columns in _NEEDED.items():
                if missing := set(columns) - self._columns[table]:
                    raise UnknownOpenCodeSchema(f"its table {table} has no {', '.join(sorted(missing))}")
        except BaseException:
            self._db.close()
            raise
        self._parts: dict[str, list[tuple[str, int]]] | None = (
            None  # by message; made when the index is damaged
        )

    def __enter__(self) -> OpenCodeDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    @property
    def db(self) -> apsw.Connection:
        """The connection, for checks of the whole file."""
        return self._db

    def sessions(self) -> Iterator[OpenCodeSession]:
        """All sessions, the ones used last first."""
        found = self._all("session", self._session_columns())
        yield from sorted(map(session, found), key=lambda s: (s.updated_at or "", s.id), reverse=True)

    def session(self, id: str) -> OpenCodeSession | None:
        """The session with that id."""
        sql = f"select {self._session_columns()} from session where id = ?"
        try:
            for values in self._db.execute(sql, (id,)):
                return session(values)
            return None
        except DAMAGE as problem:
            self._note("session", problem)
        return next((found for found in self.sessions() if found.id == id), None)

    def messages(self, session: str) -> Iterator[OpenCodeRow]:
        """Its messages in their order."""
        time = self._column("message", "time_created")
        order = f"{time}, id" if time != "null" else "id"
        columns = f"rowid, {time}, cast(id as blob)"
        after: tuple[Any, ...] = ()
        try:
            sql = f"select {columns} from message where session_id = ? order by {order}"
            for number, moment, id in self._db.execute(sql, (session,)):
                after = _key(moment, id)
                yield self._row("message", number)
            return
        except DAMAGE as problem:
            self._note("message", problem)
        wanted = self._all("message", columns, "session_id = ?", session)
        for key, number in sorted((_key(moment, id), number) for number, moment, id in wanted):
            if key > after:
                yield self._row("message", number)

    def parts(self, message: str) -> Iterator[OpenCodeRow]:
        """The parts of a message in their order."""
        after = ""
        if self._parts is None:
            try:
                sql = f"select {self._row_columns('part')} from part where message_id = ? order by id"
                for values in self._db.execute(sql, (message,)):
                    part = row(*values)
                    after = part.id
                    yield part
                return
            except DAMAGE as problem:
                self._note("part", problem)
        for id, number in self._part_numbers(message):
            if id > after:
                yield self._row("part", number)

    def _part_numbers(self, message: str) -> list[tuple[str, int]]:
        """The parts of a message one by one, where a page that holds some of them is damaged."""
        if self._parts is None:
            sql = "select cast(id as blob), rowid from part where message_id = ? order by id"
            try:
                return [(text(id), number) for id, number in self._db.execute(sql, (message,))]
            except DAMAGE as problem:
                self._note("part", problem)
            self._parts = {}
            columns = "rowid, cast(id as blob), cast(message_id as blob)"
            for number, id, whose in self._all("part", columns):
                self._parts.setdefault(text(whose), []).append((text(id), number))
        return sorted(self._parts.get(message, ()))

    def sequence(self, session: str) -> tuple[int, int, int] | None:
        """How many events its log has, and the first and last number; None if it has none."""
        if not {"aggregate_id", "seq"} <= self._columns["event"]:
            return None
        sql = "select count(*), min(seq), max(seq) from event where aggregate_id = ?"
        try:
            count, first, last = self._db.execute(sql, (session,)).fetchone() or (0, 0, 0)
        except DAMAGE as problem:
            self._note("event", problem)
            return None
        whole = type(count) is int and type(first) is int and type(last) is int
        return (count, first, last) if whole and count else None

    def other_messages(self, session: str) -> int:
        """How many messages it has in the table of a later format."""
        if "session_id" not in self._columns["session_message"]:
            return 0
        try:
            sql = "select count(*) from session_message where session_id = ?"
            return int((self._db.execute(sql, (session,)).fetchone() or (0,))[0])
        except DAMAGE as problem:
            self._note("session_message", problem)
            return 0

    def _row(self, table: str, number: int) -> OpenCodeRow:
        try:
            sql = f"select {self._row_columns(table)} from {table} where rowid = ?"
            for values in self._db.execute(sql, (number,)):
                return row(*values)
            problem: Exception | str = "a row of the index is not in the table"
        except DAMAGE as damage:
            problem = damage
        self._note(table, problem)
        return lost(table, number, problem)

    def _row_columns(self, table: str) -> str:
        times = f"{self._column(table, 'time_created')}, {self._column(table, 'time_updated')}"
        size = "octet_length(data)"
        return f"cast(id as blob), {times}, {size}, case when {size} <= {LONGEST} then cast(data as blob) end"

    def _all(self, table: str, columns: str, where: str = "true", *values: str) -> Iterator[_Values]:
        """Rows in the order of their numbers, without an index, around what is damaged."""
        after, step = -_LAST_ROW, 0
        while after < _LAST_ROW:
            sql = (
                f"select rowid, {columns} from {table} not indexed where rowid > ? and {where} order by rowid"
            )
            try:
                for number, *found in self._db.execute(sql, (after, *values)):
                    after, step = number, 0
                    yield tuple(found)
                return
            except DAMAGE as problem:
                self._note(table, problem)
            step += 1
            after = max(after, 0) + (1 if step <= _NEAR else 1 << min(step - _NEAR, 62))

    def _columns_of(self, table: str) -> set[str]:
        return {str(column[1]) for column in self._db.execute(f"pragma table_info({table})")}

    def _column(self, table: str, column: str) -> str:
        return column if column in self._columns[table] else "null"

    def _session_columns(self) -> str:
        names = ("directory", "title", "parent_id", "time_updated", "revert")
        directory, title, parent, updated, revert = (self._column("session", name) for name in names)
        texts = ", ".join(f"cast({column} as blob)" for column in ("id", directory, title, parent))
        return f"{texts}, {updated}, cast({revert} as blob)"

    def _note(self, table: str, problem: Exception | str) -> None:
        told = f"{table}: {' '.join(str(problem).split())}"
        if told not in self.damage and len(self.damage) < 20:
            self.damage.append(told)


def _key(moment: Any, id: Any) -> tuple[float, str]:
    return moment if type(moment) in (int, float) else 0.0, text(id)
