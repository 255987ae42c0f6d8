"""How is another tool's SQLite database read? From a private copy of one consistent state.

No lock is taken, and nothing beside the original is created or changed, although its owner may commit and
checkpoint meanwhile. A copy is consistent if the database file was the same before and after the `-wal` was
copied, and the `-wal` was not restarted. Frames appended meanwhile do no harm: SQLite reads a WAL up to its
last whole commit.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import apsw

from holdfast import errors

PREFIX = "holdfast-copy-"
YOUNG_S = 60.0  # a younger folder may not be locked yet


@contextmanager
def folder() -> Iterator[str]:
    """A new private folder. Folders of processes that no longer exist are removed."""
    base = tempfile.gettempdir()
    _sweep(base)
    path = tempfile.mkdtemp(prefix=PREFIX, dir=base)
    try:
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield path
        finally:
            os.close(held)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _sweep(base: str) -> None:
    with suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):  # not ours, already removed, or still locked
                    _remove(entry.path)


def _remove(path: str) -> None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    held = os.open(path, flags)
    try:
        what = os.fstat(held)
        if what.st_uid == os.geteuid() and time.time() - what.st_mtime > YOUNG_S:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(held)


# --- The snapshot

TRIES = 60
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.25
DB_HEADER, WAL_HEADER = 100, 32  # bytes; the first holds the change counter, the second the salts
TICK_NS = 20_000_000  # a write within one kernel tick (at most 10 ms) of the last may not change mtime
BLOCK = 1 << 20

_NO_ATIME = getattr(os, "O_NOATIME", 0)
_FICLONE = 0x40049409


@contextmanager
def snapshot(path: str) -> Iterator[str]:
    """The path of a copy that exists as long as the context. Raises StoreBusy if the original keeps changing.

    Raises OSError like `open` if the file does not exist or cannot be read.
    """
    # SQLite keeps -wal and -journal beside the file itself, not beside a link
    source = os.path.realpath(path)
    with scratch_folder() as folder:
        copy = os.path.join(folder, os.path.basename(source))
        pause = FIRST_PAUSE_S
        for _ in range(TRIES):
            if _copy_once(source, copy):
                break
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE_S)
        else:
            raise errors.StoreBusy(
                f"{path} is being written all the time; there is no quiet moment to copy it"
            )
        yield copy


class SqliteSnapshot:
    """A snapshot that exists as long as this object."""

    def __init__(self, source: str):
        self.seen = _signature(source)
        held = ExitStack()
        self.path = held.enter_context(snapshot(source))
        weakref.finalize(self, held.close)


class SnapshotCache:
    """The last snapshot, reused while its original is unchanged: reading many sessions copies once."""

    def __init__(self) -> None:
        self._last: tuple[str, SqliteSnapshot] | None = None

    def copy(self, source: str) -> SqliteSnapshot:
        """A snapshot of that database as it is now. Raises the errors of `snapshot`."""
        last = self._last
        if last is not None and last[0] == source and last[1].seen == _signature(source):
            return last[1]
        self._last = None
        snapshot = SqliteSnapshot(source)
        self._last = (source, snapshot)
        return snapshot


def _signature(source: str) -> list[tuple[int, int, int]]:
    parts = []
    for ending in ("", "-journal", "-wal"):
        try:
            what = os.stat(os.path.realpath(source) + ending)
        except OSError:
            parts.append((0, 0, 0))
        else:
            parts.append((what.st_ino, what.st_size, what.st_mtime_ns))
    return parts


def open_copy(copy: str) -> apsw.Connection:
    """Open a snapshot so that its content cannot change. Raises apsw.Error if it is not a database.

    It is opened for writing, because only a writer may roll back a hot journal. TEXT that is not UTF-8 makes
    apsw raise UnicodeDecodeError: select `cast(x as blob)` where that matters.
    """
    db = apsw.Connection(copy, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        db.execute("pragma query_only = on")
        db.execute("pragma temp_store = memory")
    except apsw.Error:
        db.close()
        raise
    return db


def quick_check(db: apsw.Connection, most: int = 20) -> list[str]:
    """What SQLite's quick check reports, up to a limit; empty if the file is sound."""
    try:
        rows = [str(row[0]) for row in db.execute(f"pragma quick_check({int(most)})")]
    except (apsw.Error, UnicodeDecodeError) as problem:
        return [" ".join(str(problem).split())]
    return [] if rows == ["ok"] else rows


def is_at_rest(path: str) -> bool:
    """Whether one file holds the whole database: the `-wal` is empty and there is no journal."""
    beside = (path + ending for ending in ("-wal", "-journal"))
    return not any(os.path.exists(name) and os.path.getsize(name) for name in beside)


def open_at_rest(path: str) -> apsw.Connection:
    """Open a database at rest in its place. No lock is taken, so nobody may write meanwhile."""
    name = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"file:{name}?immutable=1&mode=ro", flags=flags)


def _copy_once(source: str, copy: str) -> bool:
    """Copy the database and its side files; False if the copy may mix two states."""
    for ending in ("", "-journal", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(copy + ending)
    with ExitStack() as stack:
        began = time.time_ns()
        db = stack.enter_context(_OriginalFile(source))
        journal = stack.enter_context(_OriginalFile(source + "-journal", may_miss=True))
        wal = stack.enter_context(_OriginalFile(source + "-wal", may_miss=True))
        before = (db.mark(DB_HEADER), journal.mark(0))
        wal_before = wal.head(WAL_HEADER)
        # The order matters: the database must be the same before and after its journal and WAL are copied.
        whole = db.copy(copy) and journal.copy(copy + "-journal") and wal.copy(copy + "-wal")
        racy = [file for file in (db, journal) if file.changed_since(began)]
        same = all(file.equals(file.copied_to) for file in racy)
        return (
            whole
            and same
            and before == (db.mark(DB_HEADER), journal.mark(0))
            and wal_before == wal.head(WAL_HEADER)
            and all(file.still_there() for file in (db, journal, wal))
        )


class _OriginalFile:
    """One open file of the original, or none if the file is optional."""

    def __init__(self, path: str, may_miss: bool = False):
        self.path = path
        self.copied_to = ""
        self._fd = _open(path, may_miss)

    def __enter__(self) -> _OriginalFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def mark(self, header: int) -> tuple[object, ...]:
        """A value that changes with the content, as far as stat and the first bytes show."""
        if self._fd is None:
            return ()
        what = os.fstat(self._fd)
        return what.st_size, what.st_mtime_ns, what.st_ino, os.pread(self._fd, header, 0)

    def head(self, size: int) -> bytes | None:
        return None if self._fd is None else os.pread(self._fd, size, 0)

    def changed_since(self, moment: int) -> bool:
        """Whether it changed after that time or shortly before, when mtime may not show a further change."""
        if self._fd is None:
            return False
        return os.fstat(self._fd).st_mtime_ns > moment - TICK_NS

    def still_there(self) -> bool:
        """Whether the name still refers to this file (or still to none)."""
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            return self._fd is None
        if self._fd is None:
            return False
        mine = os.fstat(self._fd)
        return (now.st_dev, now.st_ino) == (mine.st_dev, mine.st_ino)

    def copy(self, target: str) -> bool:
        """Copy what is there now; False if the file became shorter."""
        self.copied_to = target
        if self._fd is None:
            return True
        to = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            return copy_bytes(self._fd, to)
        except OSError as problem:
            if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                folder = os.path.dirname(target)
                raise errors.DiskFull(
                    f"there is no space left in {folder} for a copy of {self.path}"
                ) from problem
            raise
        finally:
            os.close(to)

    def equals(self, copy: str) -> bool:
        """Whether the content equals the copy, byte for byte."""
        if self._fd is None:
            return True
        with open(copy, "rb") as file:
            at = 0
            while True:
                mine = os.pread(self._fd, BLOCK, at)
                if mine != file.read(len(mine) or 1):
                    return False
                if not mine:
                    return True
                at += len(mine)


def _open(path: str, may_miss: bool) -> int | None:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a fifo with that name must not block us
    try:
        try:
            fd = os.open(path, flags | _NO_ATIME)
        except PermissionError:  # O_NOATIME is for the owner
            fd = os.open(path, flags)
    except FileNotFoundError:
        if may_miss:
            return None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return fd


def copy_bytes(source: int, to: int) -> bool:
    """Copy one file into an empty one: with shared blocks if possible, else inside the kernel."""
    size = os.fstat(source).st_size
    if size == 0:
        return True
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):  # another file system, or one without shared blocks
            fcntl.ioctl(to, _FICLONE, source)
            return True
    done = _in_kernel(source, to, size)
    while done < size:
        block = os.pread(source, min(BLOCK, size - done), done)
        if not block:
            return False
        view = memoryview(block)
        while view:
            written = os.pwrite(to, view, done)
            view, done = view[written:], done + written
    return True


def _in_kernel(source: int, to: int, size: int) -> int:
    """How many bytes `copy_file_range` copied."""
    done = 0
    if sys.platform == "linux":
        try:
            while done < size:
                count = os.copy_file_range(source, to, size - done, done, done)
                if count == 0:
                    break
                done += count
        except OSError as problem:
            if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
    return done


scratch_folder = folder
