"""Writes files durably: a created file is complete or missing, and nothing is overwritten.

The power-cut tests replace `Disk` with a recording one.
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
TEMP_OLD_S = 3600.0  # a temporary file this old belongs to a dead process

_counter = iter(range(1, 1 << 62))


class Disk:
    """The operations that change a disk, one method each."""

    def open(self, path: str, flags: int) -> int:
        """Open a file. A new one gets mode 0600."""
        return os.open(path, flags | os.O_CLOEXEC, 0o600)

    def write(self, fd: int, data: bytes) -> None:
        """Write all of `data`, or raise."""
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to `size`."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Sync the content of a file to disk."""
        os.fsync(fd)

    def close(self, fd: int) -> None:
        """Close it."""
        os.close(fd)

    def link(self, old: str, new: str) -> None:
        """Give a file a second name. FileExistsError if the name exists."""
        os.link(old, new)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        os.unlink(path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file. Replaces a file with the new name."""
        os.rename(old, new)

    def make_dir(self, path: str) -> None:
        """Create a folder with mode 0700."""
        os.mkdir(path, 0o700)

    def sync_dir(self, path: str) -> None:
        """Sync the names in a folder to disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


DISK = Disk()


def private(path: str, flags: int) -> int:
    """An `opener` for `open`: only the user can access a new file."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


@contextmanager
def reported(path: str) -> Iterator[None]:
    """Convert the write errors of the operating system to ours."""
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise errors.DiskFull(f"no room is left for {path}") from problem
        if problem.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise errors.StoreReadOnly(f"{path} cannot be written: {problem.strerror}") from problem
        raise


def make_folder(path: str, disk: Disk = DISK) -> None:
    """Create a folder and its parents, accessible only for us, and sync their names to disk."""
    path = os.path.abspath(path)
    with reported(path):
        if os.path.isdir(path):
            return
        above = os.path.dirname(path)
        make_folder(above, disk)
        try:
            disk.make_dir(path)
        except FileExistsError:  # another process was faster, or it is not a folder
            if not os.path.isdir(path):
                raise
        with suppress(PermissionError):  # a folder may be writable but not readable
            disk.sync_dir(above)


def temp_name(path: str) -> str:
    """A temporary name in the folder of `path` that no other process or thread uses."""
    folder, name = os.path.split(path)
    unique = f"{os.getpid()}-{threading.get_ident()}-{time.time_ns()}-{next(_counter)}"
    return os.path.join(folder, f".{name}{TEMP_MARK}{unique}")


def is_temp(name: str) -> bool:
    """Whether a name comes from `temp_name`."""
    return name.startswith(".") and TEMP_MARK in name and name.isascii()


def create(path: str, parts: Iterator[bytes] | list[bytes], disk: Disk = DISK) -> None:
    """Create a file durably. FileExistsError, without a change, if it exists."""
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
    """Move a file durably. FileExistsError, without a change, if the new name exists."""
    with reported(new):
        disk.link(old, new)
        disk.sync_dir(os.path.dirname(new))  # before the old name is removed: a power cut must leave one
        disk.unlink(old)
        disk.sync_dir(os.path.dirname(old))


def move_together(paths: Sequence[str], folder: str, disk: Disk = DISK) -> list[str]:
    """Move several files to a folder. After a crash all are in the old place, or all are in the folder."""
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
    """The temporary files of dead processes in a folder."""
    paths = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_temp(entry.name):
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode) and now - status.st_mtime > TEMP_OLD_S:
                        paths.append(entry.path)
    return paths
