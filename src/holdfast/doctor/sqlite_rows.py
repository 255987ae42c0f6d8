"""Changing rows of another program's SQLite database: one transaction, with nobody else in the file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import apsw

from holdfast import errors
from holdfast.doctor.files import FileDigest
from holdfast.doctor.plan import RowChange, RowCheck
from holdfast.process.open_files import ENDINGS
from holdfast.transcripts import sqlite_snapshot


def apply_changes(
    path: str, statements: Sequence[RowChange], before: dict[str, FileDigest | None] | None = None
) -> None:
    """Do them all or none, durable; PlanChanged if the files or rows are not what they were."""
    with _held(path) as db:
        db.execute("begin immediate")
        if before is not None and not (before.get("-journal") or FileDigest("", 0)).size:
            _expect(path, before)
        for statement in statements:
            db.execute(statement.sql, tuple(statement.values))
            if db.changes() != statement.rows:
                raise errors.PlanChanged(f"rows of {path} have changed since; nothing was done")
        db.execute("commit")
        _fold(db)


def checkpoint(path: str) -> None:
    """Bring all that is in its `-wal` into the database file, and let that be the only one."""
    with _held(path) as db:
        db.execute("begin immediate")
        db.execute("commit")
        _fold(db)


def same_rows(path: str, other: str) -> bool:
    """Whether two databases have the same tables with the same rows."""
    with sqlite_snapshot.snapshot(path) as one, sqlite_snapshot.snapshot(other) as two:
        return _digest(one) == _digest(two)


@contextmanager
def _held(path: str) -> Iterator[apsw.Connection]:
    for needed in (os.path.dirname(path), path):
        if not os.access(needed, os.W_OK):
            raise errors.StoreReadOnly(f"{needed} may not be written by this user; nothing was done")
    try:
        db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error as problem:
        raise _told(path, problem) from problem
    try:
        # After a failure the files are left as they are; what is not committed does not count.
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        # In WAL mode this gets the lock only if no other connection has the file open, and needs no -shm.
        db.execute("pragma locking_mode = exclusive")
        db.execute("pragma synchronous = full")
        yield db
    except apsw.Error as problem:
        raise _told(path, problem) from problem
    finally:
        db.close()


def _fold(db: apsw.Connection) -> None:
    """Bring the `-wal` into the database; it goes away when this connection is closed."""
    db.execute("pragma wal_checkpoint(truncate)").fetchall()
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def is_applied(path: str, checks: Sequence[RowCheck]) -> bool:
    """Whether the change is made, read back from the disk; of files at rest no copy is needed."""
    with ExitStack() as held:
        if sqlite_snapshot.is_at_rest(path):
            db = sqlite_snapshot.open_at_rest(path)
        else:
            db = sqlite_snapshot.open_copy(held.enter_context(sqlite_snapshot.snapshot(path)))
        held.callback(db.close)
        return all(_given(db, check) == [tuple(row) for row in check.expected] for check in checks)


def _given(db: apsw.Connection, check: RowCheck) -> list[Any]:
    return db.execute(check.sql, tuple(check.values)).fetchall()


def _digest(path: str) -> str:
    """All rows of all tables, in the order of the file."""
    digest = hashlib.sha256()
    db = sqlite_snapshot.open_copy(path)
    try:
        tables = "select name, sql from sqlite_schema where type = 'table' order by name"
        for name, sql in db.execute(tables).fetchall():
            digest.update(repr((name, sql)).encode())
            if str(sql).lower().startswith("create virtual"):
                continue  # its content is in tables of its own
            quoted = '"' + str(name).replace('"', '""') + '"'
            columns = [f'"{row[1]}"' for row in db.execute(f"pragma table_info({quoted})")]
            shown = ", ".join(f"typeof({column}), cast({column} as blob)" for column in columns)
            for row in db.execute(f"select {shown} from {quoted}"):
                digest.update(repr(row).encode())
    finally:
        db.close()
    return digest.hexdigest()


def _expect(path: str, before: dict[str, FileDigest | None]) -> None:
    for ending in ENDINGS[:2]:
        was = before.get(ending)
        try:
            now = os.stat(path + ending)
        except FileNotFoundError:
            found = None
        else:
            found = (now.st_size, now.st_mtime_ns)
        if found != (None if was is None else (was.size, was.mtime_ns)) and (
            (found or (0, 0))[0] or (was and was.size)
        ):
            raise errors.PlanChanged(f"{path}{ending} has changed since; nothing was done")


def _told(path: str, problem: apsw.Error) -> errors.HoldfastError:
    said = " ".join(str(problem).split())
    if isinstance(problem, apsw.BusyError | apsw.LockedError):
        return errors.StoreBusy(
            f"{path} is open in another program (SQLite: {said})", hint="end that program and try again"
        )
    if isinstance(problem, apsw.FullError):
        return errors.DiskFull(f"no room is left for {path}")
    if isinstance(problem, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        return errors.StoreReadOnly(f"{path} cannot be written: {said}")
    return errors.StoreUnreadable(f"{path} cannot be changed: {said}", hint="nothing was done")
