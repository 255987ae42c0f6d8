"""The only place that writes files: what is created is whole or not there, and nothing is overwritten.

`Disk` is a seam: the power-cut tests put a recording one in its place.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from holdfast import errors

TEMP_MARK = ".tmp-"
TEMP_OLD_S = 3600.0  # a temporary file this old belongs to nobody who lives

_counter = iter(range(1, 1 << 62))


class Disk:
    """The operations that change a disk, one method each."""

    def open(self, path: str, flags: int) -> int:
        """A file descriptor, made with mode 0600."""
        return os.open(path, flags | os.O_CLOEXEC, 0o600)

    def write(self, fd: int, data: bytes) -> None:
        """All of `data`, or an error."""
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to `size`."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """The file's content on disk."""
        os.fsync(fd)

    def close(self, fd: int) -> None:
        """Close it."""
        os.close(fd)

    def link(self, old: str, new: str) -> None:
        """A second name; FileExistsError if that name is taken."""
        os.link(old, new)

    def unlink(self, path: str) -> None:
        """Take a name away."""
        os.unlink(path)

    def rename(self, old: str, new: str) -> None:
        """Give another name, replacing what had it."""
        os.rename(old, new)

    def make_dir(self, path: str) -> None:
        """A new folder with mode 0700."""
        os.mkdir(path, 0o700)

    def sync_dir(self, path: str) -> None:
        """The names in a folder on disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


DISK = Disk()


def private(path: str, flags: int) -> int:
    """An `opener` for `open`: a file that is made is for its user alone."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


@contextmanager
def reported(path: str) -> Iterator[None]:
    """Turn what an operating system says of a write into our words."""
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise errors.DiskFull(f"no room is left for {path}") from problem
        if problem.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise errors.StoreReadOnly(f"{path} cannot be written: {problem.strerror}") from problem
        raise


def make_folder(path: str, disk: Disk = DISK) -> None:
    """A folder for us alone, and those above it; their names are on disk, or all in them could be lost."""
    path = os.path.abspath(path)
    with reported(path):
        if os.path.isdir(path):
            return
        above = os.path.dirname(path)
        make_folder(above, disk)
        try:
            disk.make_dir(path)
        except FileExistsError:  # another process was quicker, or it is no folder
            if not os.path.isdir(path):
                raise
        with suppress(PermissionError):  # a folder may be written to but not read
            disk.sync_dir(above)


def temp_name(path: str) -> str:
    """A name beside `path` that no other process or thread will choose."""
    folder, name = os.path.split(path)
    unique = f"{os.getpid()}-{threading.get_ident()}-{time.time_ns()}-{next(_counter)}"
    return os.path.join(folder, f".{name}{TEMP_MARK}{unique}")


def is_temp(name: str) -> bool:
    """Whether a name is one that `temp_name` gave."""
    return name.startswith(".") and TEMP_MARK in name and name.isascii()


def create(path: str, parts: Iterator[bytes] | list[bytes], disk: Disk = DISK) -> None:
    """A new file with that content, durable; FileExistsError if there is one, which is left alone."""
    temp = temp_name(path)
    with reported(path):
        fd = disk.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            try:
                for part in parts:
                    disk.write(fd, part)
                disk.sync(fd)
            finally:
                disk.close(fd)
            disk.link(temp, path)
        finally:
            disk.unlink(temp)
        disk.sync_dir(os.path.dirname(path))


def move(old: str, new: str, disk: Disk = DISK) -> None:
    """Give a file another name; FileExistsError if that is taken, and nothing is moved."""
    with reported(new):
        disk.link(old, new)
        disk.sync_dir(os.path.dirname(new))  # before the old name goes: a power cut must leave one
        disk.unlink(old)
        disk.sync_dir(os.path.dirname(old))


def move_together(paths: Sequence[str], folder: str, disk: Disk = DISK) -> list[str]:
    """Move files that belong together; cut short, all are still there or all are in the folder."""
    moved = [os.path.join(folder, os.path.basename(path)) for path in paths]
    with reported(folder):
        for old, new in zip(paths, moved, strict=True):
            disk.link(old, new)
        disk.sync_dir(folder)
        for old in paths:
            disk.unlink(old)
        for parent in {os.path.dirname(old) for old in paths}:
            disk.sync_dir(parent)
    return moved


def old_temps(folder: str, now: float) -> list[str]:
    """Temporary files that a dead process left here."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_temp(entry.name):
                with suppress(FileNotFoundError):
                    what = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(what.st_mode) and now - what.st_mtime > TEMP_OLD_S:
                        found.append(entry.path)
    return found
