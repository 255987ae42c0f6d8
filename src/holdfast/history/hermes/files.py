"""Opening another tool's files: never waiting for one that is no file, and leaving no trace."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

_NO_ATIME = getattr(os, "O_NOATIME", 0)


def opened(path: str) -> BinaryIO:
    """A regular file, open for reading; OSError if it is none."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a fifo by that name must not hold us
    try:
        fd = os.open(path, flags | _NO_ATIME)
    except PermissionError:  # O_NOATIME is for the owner
        fd = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return open(fd, "rb")
