"""Files that the doctor replaces: their digests, their backups, and the atomic replacement itself."""

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
    """The digest of a file's content, with the mode and time that an undo restores."""

    sha256: str
    size: int
    mode: int = 0o600
    mtime_ns: int = 0

    def same(self, other: FileDigest | None) -> bool:
        """Whether the bytes are equal."""
        return other is not None and (self.sha256, self.size) == (other.sha256, other.size)


def digest_file(path: str) -> FileDigest | None:
    """The digest of a file; None if it does not exist; OSError if it is not a regular file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with open(fd, "rb", buffering=0) as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        digest = hashlib.sha256()
        size = 0
        while block := file.read(BLOCK):
            digest.update(block)
            size += len(block)
    return FileDigest(digest.hexdigest(), size, stat.S_IMODE(info.st_mode), info.st_mtime_ns)


def digest_bytes(data: bytes, mode: int = 0o600) -> FileDigest:
    """The digest that a file with these bytes would have."""
    return FileDigest(hashlib.sha256(data).hexdigest(), len(data), mode)


def same_content(one: FileDigest | None, other: FileDigest | None) -> bool:
    """Whether both have the same bytes, or neither exists."""
    return other is None if one is None else one.same(other)


def back_up(path: str, to: str) -> FileDigest | None:
    """Copy a file durably; its digest, or None if it does not exist."""
    try:
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        info = os.fstat(source)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        _copy(source, to, path)
    finally:
        os.close(source)
    kept = digest_file(to)
    now = os.stat(path)
    if kept is None or (now.st_ino, now.st_size, now.st_mtime_ns) != (
        info.st_ino,
        info.st_size,
        info.st_mtime_ns,
    ):
        raise errors.PlanChanged(f"{path} was written while it was copied; nothing was changed")
    return FileDigest(kept.sha256, kept.size, stat.S_IMODE(info.st_mode), info.st_mtime_ns)


def replace_file(kept: str, path: str, expected: FileDigest | None, wanted: FileDigest, temp: str) -> None:
    """Replace `path` with the bytes of `kept`; PlanChanged, without a change, if `path` is not as expected.

    If the file is expected not to exist, it is created exclusively, otherwise replaced atomically.
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
    """Remove a file that has a backup; PlanChanged if it is not as expected."""
    require_unchanged(path, expected)
    with durable_io.reported(path):
        os.unlink(path)
        durable_io.DISK.sync_dir(os.path.dirname(path))


def require_unchanged(path: str, expected: FileDigest | None) -> None:
    """Raise PlanChanged if the file is not as expected."""
    if not same_content(digest_file(path), expected):
        raise errors.PlanChanged(f"{path} changed since the diagnosis; it was left as it is")


def remove_if_present(path: str) -> None:
    """Remove a file of ours, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def temp_path(path: str, operation: str) -> str:
    """The temporary name of a file in one repair; it is derived, so that a later run finds and removes it."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:200]}.holdfast-{operation}")


def _create(temp: str, path: str) -> None:
    try:
        os.link(temp, path)
    except FileExistsError:
        raise errors.PlanChanged(f"{path} was created since the diagnosis; it was left as it is") from None


def _own(temp: str, path: str) -> None:
    """Give the new file the old file's owner, if we may."""
    with suppress(OSError):
        info = os.stat(path)
        if (info.st_uid, info.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(temp, info.st_uid, info.st_gid)


def _copy(source: int, to: str, path: str, mode: int = 0o600) -> None:
    with durable_io.reported(path):
        target = os.open(to, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if not copy_bytes(source, target):
                raise errors.PlanChanged(f"{path} shrank while it was copied; nothing was changed")
            os.fchmod(target, mode)
            os.fsync(target)
        except BaseException:
            remove_if_present(to)
            raise
        finally:
            os.close(target)
