"""How is OpenCode's database read? Row by row from a copy, so a damaged page costs only its own rows.

Accounts, credentials and shares are in the same file and are never read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import apsw
import msgspec

from holdfast import timestamps
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl
from holdfast.transcripts.jsonl import LONGEST
from holdfast.transcripts.sqlite_snapshot import open_copy

LONGEST_NAME = 1000  # characters of a title or a path


class OpenCodeSession(msgspec.Struct, frozen=True, kw_only=True):
    """The relevant columns of a `session` row."""

    id: str
    directory: str | None = None
    title: str | None = None
    parent: str | None = None
    updated_at: str | None = None
    reverted: str | None = None  # the user rolled back everything from this message on


class OpenCodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message or a part: its JSON, or a notice if it is unreadable."""

    id: str
    made: Any = None  # milliseconds, as in the column
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
    """A session from the columns id, directory, title, parent_id, time_updated, revert."""
    id, directory, title, parent, updated, revert = row
    reverted = jsonl.parse(revert) if isinstance(revert, bytes) else {}
    return OpenCodeSession(
        id=text(id),
        directory=name(directory),
        title=name(title),
        parent=name(parent),
        updated_at=timestamps.of_millis(updated),
        reverted=jsonl.text_field(reverted, "messageID") or None if isinstance(reverted, dict) else None,
    )


def row(id: Any, created: Any, updated: Any, size: Any, data: Any) -> OpenCodeRow:
    """A row of `message` or `part`; `data` is None if it is too large."""
    odd: NewEvent | None = None
    value: dict[str, Any] | NewEvent
    if isinstance(data, bytes):
        value = jsonl.parse(data)
    else:
        value = jsonl.notice_event(
            "too_long", f"a record of {size} bytes is only in the database", bytes=size
        )
    if isinstance(value, NewEvent):
        odd, value = value, {}
    return OpenCodeRow(id=text(id), made=created, changed=updated, data=value, odd=odd)


def unreadable_row(table: str, number: int, problem: Exception | str) -> OpenCodeRow:
    """The stand-in for an unreadable row."""
    why = " ".join(str(problem).split())
    return OpenCodeRow(
        id="", odd=jsonl.notice_event("store_damaged", f"a row of {table} cannot be read: {why}", row=number)
    )


def text(value: Any) -> str:
    """A column that should be text, as bytes or as SQLite returned it."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "" if value is None else str(value)


def name(value: Any) -> str | None:
    """A short text that fits a title."""
    shortened = text(value).replace("\0", "")[:LONGEST_NAME]
    return shortened or None


# --- The database

DAMAGE = (apsw.Error, UnicodeDecodeError)
_NEEDED = {
    "session": ("id",),
    "message": ("id", "session_id", "data"),
    "part": ("id", "message_id", "data"),
}
_NEAR = 256  # rows after a damage that are tried one by one; then the steps double
_LAST_ROW = 1 << 62

_Values: TypeAlias = tuple[Any, ...]


class UnknownOpenCodeSchema(Exception):
    """The database lacks OpenCode's tables."""


class OpenCodeDatabase:
    """One connection; `damage` lists what could not be read so far."""

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
            None  # by message; built when the index is damaged
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
        """All sessions, the most recently used first."""
        rows = self._all("session", self._session_columns())
        yield from sorted(map(session, rows), key=lambda s: (s.updated_at or "", s.id), reverse=True)

    def session(self, id: str) -> OpenCodeSession | None:
        """The session with this id."""
        sql = f"select {self._session_columns()} from session where id = ?"
        try:
            for values in self._db.execute(sql, (id,)):
                return session(values)
            return None
        except DAMAGE as problem:
            self._note("session", problem)
        return next((candidate for candidate in self.sessions() if candidate.id == id), None)

    def messages(self, session: str) -> Iterator[OpenCodeRow]:
        """The messages of a session, in order."""
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
        rows = self._all("message", columns, "session_id = ?", session)
        for key, number in sorted((_key(moment, id), number) for number, moment, id in rows):
            if key > after:
                yield self._row("message", number)

    def parts(self, message: str) -> Iterator[OpenCodeRow]:
        """The parts of a message, in order."""
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
        """The parts of a message one by one, if a page with some of them is damaged."""
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
            problem: Exception | str = "the index has a row that the table does not have"
        except DAMAGE as damage:
            problem = damage
        self._note(table, problem)
        return unreadable_row(table, number, problem)

    def _row_columns(self, table: str) -> str:
        times = f"{self._column(table, 'time_created')}, {self._column(table, 'time_updated')}"
        size = "octet_length(data)"
        return f"cast(id as blob), {times}, {size}, case when {size} <= {LONGEST} then cast(data as blob) end"

    def _all(self, table: str, columns: str, where: str = "true", *values: str) -> Iterator[_Values]:
        """Rows by rowid, without an index, skipping damage."""
        after, step = -_LAST_ROW, 0
        while after < _LAST_ROW:
            sql = (
                f"select rowid, {columns} from {table} not indexed where rowid > ? and {where} order by rowid"
            )
            try:
                for number, *row in self._db.execute(sql, (after, *values)):
                    after, step = number, 0
                    yield tuple(row)
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
        text = f"{table}: {' '.join(str(problem).split())}"
        if text not in self.damage and len(self.damage) < 20:
            self.damage.append(text)


def _key(moment: Any, id: Any) -> tuple[float, str]:
    return moment if type(moment) in (int, float) else 0.0, text(id)
