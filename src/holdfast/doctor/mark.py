"""How a file was when it was looked at: what tells whether it has changed since."""

from __future__ import annotations

import errno
import hashlib
import os
import stat

import msgspec

BLOCK = 1 << 20


class Mark(msgspec.Struct, frozen=True):
    """One file's content, by its digest, and what else is put back with it."""

    sha256: str
    size: int
    mode: int = 0o600
    mtime_ns: int = 0

    def same(self, other: Mark | None) -> bool:
        """Whether the bytes are the same."""
        return other is not None and (self.sha256, self.size) == (other.sha256, other.size)


def mark(path: str) -> Mark | None:
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
    return Mark(digest.hexdigest(), size, stat.S_IMODE(what.st_mode), what.st_mtime_ns)


def mark_of(data: bytes, mode: int = 0o600) -> Mark:
    """The mark that a file with these bytes would have."""
    return Mark(hashlib.sha256(data).hexdigest(), len(data), mode)


def same(one: Mark | None, other: Mark | None) -> bool:
    """Whether both are the same bytes, or both are nothing."""
    return other is None if one is None else one.same(other)
