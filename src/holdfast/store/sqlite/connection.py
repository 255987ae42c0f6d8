"""How are connections to a SQLite file opened, and what do their errors mean to a user?"""

from __future__ import annotations

import os
import time
from contextlib import suppress

import apsw

from holdfast import errors

APPLICATION = 0x486F6C64  # "Hold", in the file's header
BUSY_MS = 15_000  # how long to wait for another process's transaction
CHECKPOINT_PAGES = 2000


def open_writer(path: str, vfs: str | None = None) -> apsw.Connection:
    """A write connection: WAL mode, every commit is on disk before its answer."""
    _make_private(path)
    with translated(path):
        db = apsw.Connection(path, vfs=vfs)
        if db.readonly("main"):  # SQLite opens it anyway; fail now, not at the first write
            db.close()
            raise errors.StoreReadOnly(f"{path} cannot be written: the disk or the file is read-only")
        db.set_busy_timeout(BUSY_MS)
        _keep_plans(db)
        if vfs is not None:
            # Without shared memory a recording VFS sees every write (power-cut tests).
            db.execute("pragma locking_mode=exclusive")
        mode = _choose_wal(db)
        if mode != ("wal",):
            db.close()
            raise errors.StoreUnreadable(
                f"{path} cannot be put into WAL mode (it is {mode[0] if mode else 'silent'})",
                hint="a network file system cannot hold the store; choose a local HOLDFAST_HOME",
            )
        db.execute("pragma synchronous=full")
        db.execute(f"pragma wal_autocheckpoint={CHECKPOINT_PAGES}")
        db.execute("pragma journal_size_limit=16777216")
        # Readers open the file read-only, which needs existing -wal and -shm files.
        _keep_wal(db)
    return db


def _choose_wal(db: apsw.Connection) -> tuple[object, ...] | None:
    end = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            return db.execute("pragma journal_mode=wal").fetchone()
        except apsw.BusyError:
            # Two processes that open a new file could wait for each other here, so SQLite does not wait.
            if time.monotonic() >= end:
                raise
            time.sleep(0.005)


def open_reader(path: str) -> apsw.Connection:
    """A read-only connection that never waits for a writer."""
    if not os.path.exists(path):
        raise errors.StoreMissing(f"there is no database at {path}")
    with translated(path):
        try:
            db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
            db.set_busy_timeout(BUSY_MS)
            _keep_plans(db)
            db.execute("select count(*) from sqlite_schema").fetchone()
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            if not os.path.exists(path + "-wal") and not os.path.exists(path + "-journal"):
                # Without a WAL the file alone is the whole database.
                db = apsw.Connection(
                    f"file:{_uri(path)}?immutable=1",
                    flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
                )
                _keep_plans(db)
                db.execute("select count(*) from sqlite_schema").fetchone()
            else:
                raise
    return db


def _make_private(path: str) -> None:
    """Create the file readable only for us; SQLite gives -wal and -shm the same mode."""
    from holdfast.durable_io import reported

    with reported(path), suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _uri(path: str) -> str:
    return os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _keep_plans(db: apsw.Connection) -> None:
    """Prepare a statement once. By default SQLite does it again when a compared value is new.

    We keep no statistics that would let it choose a better plan; for a list it was half the cost.
    """
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def _keep_wal(db: apsw.Connection) -> None:
    import ctypes

    on = ctypes.c_int(1)
    db.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(on))


class translated:
    """Converts errors of SQLite to ours, with the name of the file."""

    def __init__(self, path: str):
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, (apsw.Error, UnicodeDecodeError)):
            raise meaning(problem, self.path) from problem


def meaning(problem: apsw.Error | UnicodeDecodeError, path: str) -> errors.HoldfastError:
    """Our error for an error of SQLite, which becomes its cause."""
    ours = _meaning(problem, path)
    ours.__cause__ = problem
    return ours


SCARCE = "this process or machine may have too many files open; it is tried again"


def _may_be_opened(path: str) -> bool:
    """Whether the files themselves are fine: SQLite does not say when it has no file descriptor left."""
    journals = [path + end for end in ("-wal", "-shm") if os.path.lexists(path + end)]
    return all(os.path.isfile(one) and os.access(one, os.R_OK | os.W_OK) for one in (path, *journals))


def _meaning(problem: apsw.Error | UnicodeDecodeError, path: str) -> errors.HoldfastError:
    what = f"{path}: {problem}"
    if isinstance(problem, UnicodeDecodeError):  # SQLite returns whatever a damaged page holds
        return errors.StoreUnreadable(f"the database is damaged: text is not UTF-8: {what}")
    if isinstance(problem, (apsw.BusyError, apsw.LockedError)):
        return errors.StoreBusy(f"{path} is held by another process")
    if isinstance(problem, apsw.FullError):
        return errors.DiskFull(f"no room is left for {path}; nothing was half written")
    if isinstance(problem, (apsw.CorruptError, apsw.NotADBError)):
        return errors.StoreUnreadable(f"the database is damaged: {what}")
    if isinstance(problem, (apsw.ReadOnlyError, apsw.PermissionsError)):
        return errors.StoreReadOnly(f"the database cannot be written: {what}")
    if isinstance(problem, apsw.CantOpenError):
        if os.path.exists(path) and not os.access(os.path.dirname(path) or ".", os.W_OK):
            return errors.StoreReadOnly(f"the database cannot be written: {what}")
        if _may_be_opened(path):
            return errors.StoreBusy(f"the database cannot be opened just now: {what}", hint=SCARCE)
        return errors.StoreUnreadable(f"the database cannot be opened: {what}")
    if isinstance(problem, apsw.IOError):
        return errors.DiskFull(
            f"the disk refused a write or read of the database: {what}",
            hint="check the disk's room and health",
        )
    return errors.StoreUnreadable(f"the database answered: {what}")
