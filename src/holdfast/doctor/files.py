"""Putting whole files in place: under a temporary name first, and only over what is expected."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress

import msgspec

from holdfast import durable_io, errors
from holdfast.transcripts.sqlite_snapshot import copy_bytes

BLOCK = 1 << 20


class FileDigest(msgspec.Struct, frozen=True):
    """One file's content, by its digest, and what else is put back with it."""

    sha256: str
    size: int
    mode: int = 0o600
    mtime_ns: int = 0

    def same(self, other: FileDigest | None) -> bool:
        """Whether the bytes are the same."""
        return other is not None and (self.sha256, self.size) == (other.sha256, other.size)


def digest_file(path: str) -> FileDigest | None:
    """A file as it is now, read with flat memory; None if there is none; OSError if it is no plain file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with open(fd, "rb", buffering=0) as file:
        what = os.fstat(fd)
        if not stat.S_ISREG(what.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        digest = hashlib.sha256()
        size = 0
        while block := file.read(BLOCK):
            digest.update(block)
            size += len(block)
    return FileDigest(digest.hexdigest(), size, stat.S_IMODE(what.st_mode), what.st_mtime_ns)


def digest_bytes(data: bytes, mode: int = 0o600) -> FileDigest:
    """The mark that a file with these bytes would have."""
    return FileDigest(hashlib.sha256(data).hexdigest(), len(data), mode)


def same_content(one: FileDigest | None, other: FileDigest | None) -> bool:
    """Whether both are the same bytes, or both are nothing."""
    return other is None if one is None else one.same(other)


# --- Putting whole files in place: under a temporary name first, and only over what is expected.


def back_up(path: str, to: str) -> FileDigest | None:
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
    kept = digest_file(to)
    now = os.stat(path)
    if kept is None or (now.st_ino, now.st_size, now.st_mtime_ns) != (
        what.st_ino,
        what.st_size,
        what.st_mtime_ns,
    ):
        raise errors.PlanChanged(f"{path} was written while it was copied; nothing was done")
    return FileDigest(kept.sha256, kept.size, stat.S_IMODE(what.st_mode), what.st_mtime_ns)


def replace_file(kept: str, path: str, expected: FileDigest | None, wanted: FileDigest, temp: str) -> None:
    """Make `path` hold what `kept` holds; PlanChanged if it is not as expected, and nothing is changed.

    With nothing expected the file is made by create-or-fail, else it is replaced in one move.
    """
    with durable_io.reported(path):
        remove_if_present(temp)
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
                require_unchanged(path, expected)
                os.rename(temp, path)
        finally:
            remove_if_present(temp)
        durable_io.DISK.sync_dir(os.path.dirname(path))


def remove_file(path: str, expected: FileDigest) -> None:
    """Take a file away, of which there is a copy; PlanChanged if it is not as expected."""
    require_unchanged(path, expected)
    with durable_io.reported(path):
        os.unlink(path)
        durable_io.DISK.sync_dir(os.path.dirname(path))


def require_unchanged(path: str, expected: FileDigest | None) -> None:
    """PlanChanged unless the file is what it was."""
    if not same_content(digest_file(path), expected):
        raise errors.PlanChanged(f"{path} has changed since; it was left alone")


def remove_if_present(path: str) -> None:
    """Take a file of ours away, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def temp_path(path: str, case: str) -> str:
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
    with durable_io.reported(told):
        target = os.open(to, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if not copy_bytes(source, target):
                raise errors.PlanChanged(f"{told} shrank while it was copied; nothing was done")
            os.fchmod(target, mode)
            os.fsync(target)
        except BaseException:
            remove_if_present(to)
            raise
        finally:
            os.close(target)
