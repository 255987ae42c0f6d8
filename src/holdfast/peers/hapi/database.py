"""A hapi database, row by row: every schema version, with whatever columns it has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import apsw
import msgspec

from holdfast import errors
from holdfast.transcripts import sqlite_snapshot

NAME = "hapi.db"
NEWEST = 26  # the newest schema that is known
LARGE = 256 << 20  # bytes; a database of this size that nobody has open is read in place, not copied

_SESSION = ("created_at", "updated_at", "metadata_version", "seq", "active_at", "tag")
_MESSAGE = ("created_at", "local_id", "invoked_at", "scheduled_at")


class HapiSessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row of one session."""

    rowid: int
    id: str
    named: bool  # the id is the one in the row; otherwise it is only our name for it
    metadata: bytes | None
    version: Any  # of the metadata
    seq: Any
    created_at: int
    updated_at: int
    active_at: int
    tag: str | None = None


class HapiMessageRow(msgspec.Struct, frozen=True):
    """The row of one message."""

    id: str
    seq: int
    content: bytes
    created_at: int
    local_id: str | None  # of a prompt that waited in hapi's queue; older versions do not record it
    invoked_at: int | None
    scheduled_at: int | None


class HapiDatabase:
    """One consistent state of a hapi database, open for reading."""

    def __init__(self, db: apsw.Connection):
        self._db = db
        self.version = int(db.execute("pragma user_version").get)
        self.tables = {
            str(name) for (name,) in db.execute("select name from sqlite_schema where type = 'table'")
        }
        self._columns = {name: self._names(name) for name in ("sessions", "messages")}
        self._stamped = "invoked_at" in self._columns["messages"]

    def problems(self) -> list[str]:
        """SQLite's errors about the file, at most three."""
        try:
            return [str(row[0]) for row in self._db.execute("pragma quick_check(3)") if row[0] != "ok"]
        except apsw.Error as problem:
            return [str(problem)]

    def last(self) -> int:
        """The rowid of the last session, without reading the others."""
        return int(self._db.execute("select max(rowid) from sessions").get or 0)

    def sessions(self) -> Iterator[HapiSessionRow]:
        """All sessions, in file order."""
        columns = ", ".join(self._or_null("sessions", name) for name in _SESSION)
        sql = (
            f"select rowid, cast(id as blob), typeof(id), cast(metadata as blob), {columns}"
            " from sessions order by rowid"
        )
        for rowid, name, kind, metadata, created, updated, version, seq, active, tag in self._db.execute(sql):
            called = _said(name)
            yield HapiSessionRow(
                rowid=rowid,
                id=called or f"row {rowid}",
                named=kind == "text" and bool(called) and str(called).encode() == name,
                metadata=metadata,
                version=version,
                seq=seq,
                created_at=_number(created),
                updated_at=_number(updated),
                active_at=_number(active),
                tag=_said(tag),
            )

    def messages(self, row: HapiSessionRow) -> Iterator[HapiMessageRow]:
        """The messages of a session, in the order in which hapi shows them."""
        columns = ", ".join(self._or_null("messages", name) for name in _MESSAGE)
        order = "coalesce(invoked_at, created_at), seq" if self._stamped else "seq"
        sql = (
            f"select cast(id as blob), seq, cast(content as blob), {columns} from messages"
            f" where session_id = (select id from sessions where rowid = ?) order by {order}"
        )
        for name, seq, content, created, local, invoked, scheduled in self._db.execute(sql, (row.rowid,)):
            yield HapiMessageRow(
                _said(name) or f"seq {seq}",
                _number(seq),
                content or b"",
                _number(created),
                _said(local) if self._stamped else None,
                None if invoked is None else _number(invoked),
                None if scheduled is None else _number(scheduled),
            )

    def orphans(self) -> list[tuple[str, int]]:
        """Missing sessions that messages name, and how many messages each has."""
        sql = (
            "select cast(session_id as blob), count(*) from messages"
            " where session_id not in (select id from sessions where id is not null) group by session_id"
        )
        return [(_said(name) or "?", count) for name, count in self._db.execute(sql)]

    def has(self, session: str) -> bool:
        """Whether there is a session with that id."""
        return self._db.execute("select 1 from sessions where id = ?", (session,)).get is not None

    def machines(self) -> Iterator[bytes | None]:
        """The metadata of each machine that hapi knows."""
        if "machines" in self.tables:
            for (metadata,) in self._db.execute("select cast(metadata as blob) from machines"):
                yield metadata

    def _names(self, table: str) -> frozenset[str]:
        return frozenset(str(row[1]) for row in self._db.execute(f"pragma table_info({table})"))

    def _or_null(self, table: str, column: str) -> str:
        if column not in self._columns[table]:
            return "null"
        return f"cast({column} as blob)" if column in ("tag", "local_id") else column


def database_path(path: str) -> str:
    """The database of a hapi home, or the named database; NotFound if there is none."""
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        path = os.path.join(path, NAME)
    if not os.path.isfile(path):
        raise errors.NotFound(
            f"there is no hapi database at {path}", hint="name hapi's home, usually ~/.hapi, or the file"
        )
    return os.path.realpath(path)


@contextmanager
def open_database(path: str) -> Iterator[HapiDatabase]:
    """The database as it is now; nothing beside it is created or changed. apsw.Error if it is not one.

    StoreBusy if a database that is read in place is written meanwhile.
    """
    with ExitStack() as stack:
        before = _identity(path) if _is_read_in_place(path) else None
        if before is not None:
            db = sqlite_snapshot.open_at_rest(path)
        else:
            db = sqlite_snapshot.open_copy(stack.enter_context(sqlite_snapshot.snapshot(path)))
        stack.callback(db.close)
        yield HapiDatabase(db)
        if before is not None and (before != _identity(path) or not _is_read_in_place(path)):
            raise errors.StoreBusy(f"{path} was written while it was read", hint="try again")


def _is_read_in_place(path: str) -> bool:
    """Whether it is large, and its one file is all there is of it."""
    return sqlite_snapshot.is_at_rest(path) and os.path.getsize(path) >= LARGE


def _identity(path: str) -> tuple[int, int, int]:
    info = os.stat(path)
    return info.st_ino, info.st_size, info.st_mtime_ns


def _said(value: Any) -> str | None:
    if value is None:
        return None
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and abs(value) < 1 << 60 else 0
