"""What becomes of a task's folder when the task has ended: compressed, kept for a while, removed."""

from __future__ import annotations

import ctypes
import errno
import gzip
import itertools
import os
import shutil
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO, Literal, cast

from holdfast import durable_io, errors
from holdfast.durable_io import DISK, Disk
from holdfast.spool.tail import Line, Splitter
from holdfast.spool.task_dir import Spool

SUFFIX = ".gz"

_LEVEL = 4
_PIECE = 1 << 18
_GZIP = 16 + zlib.MAX_WBITS
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_BLOCK = 4096


def compress(spool: Spool, disk: Disk = DISK) -> None:
    """Let stdout, stderr and sent become .gz, and remove what only a live task needs.

    Each original goes after its copy is whole and on disk, so a crash leaves at least one whole copy; run
    again, it goes on. `shim` stays with the note and the exit status: a shim that comes late must still find
    that it has no place here.
    """
    try:
        for path in (spool.sent, spool.stderr, spool.stdout):
            _compress(path, disk)
    except (FileExistsError, FileNotFoundError):
        return  # another process compresses this folder at the same time, and completes it
    for path in (
        spool.stdin,
        spool.agent_file,
        spool.relay_file,
        spool.relays_file,
        spool.deaths_file,
        spool.exit_part,
    ):
        with suppress(FileNotFoundError):
            disk.unlink(path)
    for path in durable_io.old_temps(spool.path, time.time()):
        with suppress(FileNotFoundError):
            disk.unlink(path)
    disk.sync_dir(spool.path)


def open_stdout(spool: Spool) -> BinaryIO:
    """What the agent said, from its first byte, compressed or not yet."""
    try:
        return open(spool.stdout, "rb")
    except FileNotFoundError:
        return cast(BinaryIO, gzip.open(spool.stdout + SUFFIX, "rb"))


def lines(spool: Spool) -> Iterator[Line]:
    """Every line of stdout, the last also without its newline."""
    splitter = Splitter()
    with open_stdout(spool) as file:
        while data := file.read(_PIECE):
            yield from splitter.feed(data)
    if (last := splitter.finish()) is not None:
        yield last


def uncompressed(tasks: str) -> list[str]:
    """Folders whose stdout has not become .gz yet: of tasks that run, or that ended as their worker did."""
    try:
        with os.scandir(tasks) as entries:
            return sorted(e.path for e in entries if os.path.isfile(os.path.join(e.path, "stdout")))
    except FileNotFoundError:
        return []


def expired(tasks: str, now: float, keep_s: float) -> list[str]:
    """Folders that were compressed longer ago than that, or whose removal was cut short."""
    found = []
    try:
        entries = list(os.scandir(tasks))
    except FileNotFoundError:
        return []
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            continue
        with suppress(FileNotFoundError, NotADirectoryError):
            since = _ended(Spool(entry.path))
            if since is not None and now - since > keep_s:
                found.append(entry.path)
    return sorted(found)


def remove(path: str) -> bool:
    """Remove a compressed folder; False, and nothing is touched, if it is in use or to be kept."""
    spool = Spool(path)
    try:
        if _ended(spool) is None:
            return False
        last = spool.stdout + SUFFIX  # by which `expired` knows the folder, should this be cut short
        for entry in list(os.scandir(path)):
            if entry.path == last:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
        with suppress(FileNotFoundError):
            os.unlink(last)
        os.rmdir(path)
    except FileNotFoundError:
        return not os.path.exists(path)
    return True


def bound_stderr(spool: Spool, limit: int) -> int:
    """Free the beginning of a stderr that takes more than `limit` bytes of disk; how many were freed.

    Who appends does not notice, and of the last `limit` bytes none is lost. Where the file system cannot do
    this, nothing is done.
    """
    if sys.platform != "linux":
        return 0
    try:
        if os.stat(spool.stderr).st_size <= limit:
            return 0
        fd = os.open(spool.stderr, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        found = os.fstat(fd)
        end = (found.st_size - limit) // _BLOCK * _BLOCK
        if end <= 0 or found.st_blocks * 512 <= limit + _BLOCK or end <= (start := _first_data(fd)):
            return 0
        size = ctypes.c_int64(end)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.fallocate64(fd, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_int64(0), size) != 0:
            return 0
        return end - start
    finally:
        os.close(fd)


def _ended(spool: Spool) -> float | None:
    """When a folder was compressed, None if not or if it is to be kept; an empty one was half removed."""
    names = set(os.listdir(spool.path))
    if not names:
        return os.stat(spool.path).st_mtime
    gone = os.path.basename(spool.stdout) not in names and os.path.basename(spool.keep) not in names
    copy = spool.stdout + SUFFIX
    return os.stat(copy).st_mtime if gone and os.path.basename(copy) in names else None


def _compress(path: str, disk: Disk) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        copy = path + SUFFIX
        if os.path.exists(copy):
            relation = _compare(path, copy)
            if relation == "same":
                disk.unlink(
                    path
                )  # a crash came between the two: the copy had its name only when it was whole
                return
            if relation == "longer":
                disk.unlink(copy)  # somebody has written since, and the file has all of it
            else:
                _put_aside(copy, disk)
        os.lseek(fd, _first_data(fd), os.SEEK_SET)
        durable_io.create(copy, _compressed(fd), disk)
        disk.unlink(path)
    finally:
        os.close(fd)


Relation = Literal["same", "shorter", "longer", "different"]


def _compare(path: str, copy: str) -> Relation:
    """How a file is to a compressed copy of it; a copy that cannot be read is different."""
    with open(path, "rb") as file, gzip.open(copy, "rb") as packed:
        file.seek(_first_data(file.fileno()))
        try:
            while True:
                ours, theirs = file.read(_PIECE), packed.read(_PIECE)
                if ours != theirs or not ours:
                    break
        except (EOFError, gzip.BadGzipFile, zlib.error):
            return "different"
    if ours == theirs:
        return "same"
    if len(ours) < len(theirs) and theirs.startswith(ours):
        return "shorter"
    return "longer" if ours.startswith(theirs) else "different"


def _put_aside(path: str, disk: Disk) -> None:
    """Keep one of two copies that differ under a name of its own, and the folder with it."""
    number = next(n for n in itertools.count(1) if not os.path.exists(f"{path}.other-{n}"))
    keep = Spool(os.path.dirname(path)).keep
    with durable_io.reported(keep):
        os.close(os.open(keep, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    durable_io.move(path, f"{path}.other-{number}", disk)


# --- A folder that was put away and is read again: a restored database may know less than the folder.


def unpack(spool: Spool, disk: Disk = DISK) -> None:
    """Make `stdout` and `sent` plain files again, the more complete where there are two copies.

    The other copy is kept under another name. StoreUnreadable if the only copy cannot be read.
    """
    for path in (spool.sent, spool.stdout):
        copy = path + SUFFIX
        if not os.path.exists(copy):
            continue
        if os.path.exists(path):
            relation = _compare(path, copy)
            if relation == "different" and _unpacked_size(copy) > os.path.getsize(path):
                relation = "shorter"  # of two launches: the restored one ended sooner
            if relation == "different":
                _put_aside(copy, disk)
            if relation != "shorter":
                continue
            _put_aside(path, disk)
        try:
            durable_io.create(path, _unpacked(copy), disk)
        except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
            raise errors.StoreUnreadable(f"{copy} cannot be read: {problem}") from problem
        written = os.stat(copy).st_mtime  # events are dated by it
        os.utime(path, (written, written))
    if not os.path.exists(spool.sent) and os.path.exists(spool.stdout):
        os.close(os.open(spool.sent, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    if not os.path.exists(spool.agent_file):
        durable_io.create(spool.agent_file, [b"unknown\n"], disk)  # an agent ran; who it was is forgotten


def is_packed(spool: Spool) -> bool:
    """Whether a folder has compressed output."""
    return os.path.exists(spool.stdout + SUFFIX)


def _unpacked(copy: str) -> Iterator[bytes]:
    with gzip.open(copy, "rb") as packed:
        while data := packed.read(_PIECE):
            yield data


def _unpacked_size(copy: str) -> int:
    """How many bytes a compressed copy holds; -1 if it cannot be read."""
    try:
        return sum(map(len, _unpacked(copy)))
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return -1


def _compressed(fd: int) -> Iterator[bytes]:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    while data := os.read(fd, _PIECE):
        if packed := packer.compress(data):
            yield packed
    yield packer.flush()


def _first_data(fd: int) -> int:
    """Where the first byte is that was not freed."""
    if not hasattr(os, "SEEK_DATA"):
        return 0
    try:
        return os.lseek(fd, 0, os.SEEK_DATA)
    except OSError as problem:
        if problem.errno == errno.ENXIO:  # nothing but a hole, or empty
            return os.fstat(fd).st_size
        if problem.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return 0
        raise
