"""Changes to rows of another program's SQLite database: one transaction, with the file locked."""

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
    """Apply all changes or none, durably; PlanChanged if the files or rows changed since the diagnosis."""
    with _locked(path) as db:
        db.execute("begin immediate")
        if before is not None and not (before.get("-journal") or FileDigest("", 0)).size:
            _require_unchanged(path, before)
        for statement in statements:
            db.execute(statement.sql, tuple(statement.values))
            if db.changes() != statement.rows:
                raise errors.PlanChanged(f"rows of {path} changed since the diagnosis; nothing was changed")
        db.execute("commit")
        _checkpoint_on_close(db)


def checkpoint(path: str) -> None:
    """Move the content of the `-wal` into the database file, so that only this file is left."""
    with _locked(path) as db:
        db.execute("begin immediate")
        db.execute("commit")
        _checkpoint_on_close(db)


def same_rows(path: str, other: str) -> bool:
    """Whether two databases have equal tables with equal rows."""
    with sqlite_snapshot.snapshot(path) as one, sqlite_snapshot.snapshot(other) as two:
        return _digest(one) == _digest(two)


@contextmanager
def _locked(path: str) -> Iterator[apsw.Connection]:
    for needed in (os.path.dirname(path), path):
        if not os.access(needed, os.W_OK):
            raise errors.StoreReadOnly(f"this user may not write {needed}; nothing was changed")
    try:
        db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error as problem:
        raise _error(path, problem) from problem
    try:
        # After a failure the files stay as they are; uncommitted changes do not count.
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        # In WAL mode this gets the lock only if no other connection has the file open, and it needs no -shm.
        db.execute("pragma locking_mode = exclusive")
        db.execute("pragma synchronous = full")
        yield db
    except apsw.Error as problem:
        raise _error(path, problem) from problem
    finally:
        db.close()


def _checkpoint_on_close(db: apsw.Connection) -> None:
    """Move the `-wal` into the database; closing this connection removes it."""
    db.execute("pragma wal_checkpoint(truncate)").fetchall()
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def is_applied(path: str, checks: Sequence[RowCheck]) -> bool:
    """Whether the change is applied, read from disk; files that nobody has open need no copy."""
    with ExitStack() as stack:
        if sqlite_snapshot.is_at_rest(path):
            db = sqlite_snapshot.open_at_rest(path)
        else:
            db = sqlite_snapshot.open_copy(stack.enter_context(sqlite_snapshot.snapshot(path)))
        stack.callback(db.close)
        return all(_query(db, check) == [tuple(row) for row in check.expected] for check in checks)


def _query(db: apsw.Connection, check: RowCheck) -> list[Any]:
    return db.execute(check.sql, tuple(check.values)).fetchall()


def _digest(path: str) -> str:
    """A digest of all rows of all tables, in file order."""
    digest = hashlib.sha256()
    db = sqlite_snapshot.open_copy(path)
    try:
        tables = "select name, sql from sqlite_schema where type = 'table' order by name"
        for name, sql in db.execute(tables).fetchall():
            digest.update(repr((name, sql)).encode())
            if str(sql).lower().startswith("create virtual"):
                continue  # its content is in other tables
            quoted = '"' + str(name).replace('"', '""') + '"'
            columns = [f'"{row[1]}"' for row in db.execute(f"pragma table_info({quoted})")]
            selected = ", ".join(f"typeof({column}), cast({column} as blob)" for column in columns)
            for row in db.execute(f"select {selected} from {quoted}"):
                digest.update(repr(row).encode())
    finally:
        db.close()
    return digest.hexdigest()


def _require_unchanged(path: str, before: dict[str, FileDigest | None]) -> None:
    for ending in ENDINGS[:2]:
        was = before.get(ending)
        try:
            info = os.stat(path + ending)
        except FileNotFoundError:
            now = None
        else:
            now = (info.st_size, info.st_mtime_ns)
        if now != (None if was is None else (was.size, was.mtime_ns)) and (
            (now or (0, 0))[0] or (was and was.size)
        ):
            raise errors.PlanChanged(f"{path}{ending} changed since the diagnosis; nothing was changed")


def _error(path: str, problem: apsw.Error) -> errors.HoldfastError:
    text = " ".join(str(problem).split())
    if isinstance(problem, apsw.BusyError | apsw.LockedError):
        return errors.StoreBusy(
            f"{path} is open in another program (SQLite: {text})", hint="stop that program and try again"
        )
    if isinstance(problem, apsw.FullError):
        return errors.DiskFull(f"the disk is full: {path} cannot be written")
    if isinstance(problem, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        return errors.StoreReadOnly(f"{path} cannot be written: {text}")
    return errors.StoreUnreadable(f"{path} cannot be changed: {text}", hint="nothing was changed")
