"""Putting whole files in place: under a temporary name first, and only over what is expected."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from holdfast import errors, fsio
from holdfast.doctor.mark import Mark, mark, same
from holdfast.history.snapshot import copy_bytes


def keep(path: str, to: str) -> Mark | None:
    """Copy a file into a case, durable; its mark, or None if there is none to copy."""
    try:
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        what = os.fstat(source)
        if not stat.S_ISREG(what.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        _copy(source, to, path)
    finally:
        os.close(source)
    kept = mark(to)
    now = os.stat(path)
    if kept is None or (now.st_ino, now.st_size, now.st_mtime_ns) != (
        what.st_ino,
        what.st_size,
        what.st_mtime_ns,
    ):
        raise errors.PlanChanged(f"{path} was written while it was copied; nothing was done")
    return Mark(kept.sha256, kept.size, stat.S_IMODE(what.st_mode), what.st_mtime_ns)


def put(kept: str, path: str, expected: Mark | None, wanted: Mark, temp: str) -> None:
    """Make `path` hold what `kept` holds; PlanChanged if it is not as expected, and nothing is changed.

    With nothing expected the file is made by create-or-fail, else it is replaced in one move.
    """
    with fsio.reported(path):
        drop(temp)
        source = os.open(kept, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _copy(source, temp, path, wanted.mode)
        finally:
            os.close(source)
        try:
            if wanted.mtime_ns:
                os.utime(temp, ns=(wanted.mtime_ns, wanted.mtime_ns))
            if expected is None:
                _create(temp, path)
            else:
                _own(temp, path)
                expect(path, expected)
                os.rename(temp, path)
        finally:
            drop(temp)
        fsio.DISK.sync_dir(os.path.dirname(path))


def remove(path: str, expected: Mark) -> None:
    """Take a file away, of which there is a copy; PlanChanged if it is not as expected."""
    expect(path, expected)
    with fsio.reported(path):
        os.unlink(path)
        fsio.DISK.sync_dir(os.path.dirname(path))


def expect(path: str, expected: Mark | None) -> None:
    """PlanChanged unless the file is what it was."""
    if not same(mark(path), expected):
        raise errors.PlanChanged(f"{path} has changed since; it was left alone")


def drop(path: str) -> None:
    """Take a file of ours away, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def temp_of(path: str, case: str) -> str:
    """The temporary name of a file in one operation: known, so that nothing is left after a crash."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:200]}.holdfast-{case}")


def _create(temp: str, path: str) -> None:
    try:
        os.link(temp, path)
    except FileExistsError:
        raise errors.PlanChanged(f"{path} has come into being meanwhile; it was left alone") from None


def _own(temp: str, path: str) -> None:
    """Give the new file the old one's owner, where that is ours to do."""
    with suppress(OSError):
        what = os.stat(path)
        if (what.st_uid, what.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(temp, what.st_uid, what.st_gid)


def _copy(source: int, to: str, told: str, mode: int = 0o600) -> None:
    with fsio.reported(told):
        target = os.open(to, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if not copy_bytes(source, target):
                raise errors.PlanChanged(f"{told} shrank while it was copied; nothing was done")
            os.fchmod(target, mode)
            os.fsync(target)
        except BaseException:
            drop(to)
            raise
        finally:
            os.close(target)
