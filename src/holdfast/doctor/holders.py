"""Who has files of another program open: what a doctor must know before it touches them."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress

from holdfast.doctor.case import ENDINGS

_SHARED_FIRST, _SHARED_SIZE = 0x40000002, 510  # the bytes that SQLite locks for reading
_FLOCK = struct.Struct("hhqqi4x")


def open_in(paths: Iterable[str]) -> list[str]:
    """For each process that has one of these files open, one sentence."""
    wanted = {}
    for path in paths:
        with suppress(OSError):
            what = os.stat(path)
            wanted[(what.st_dev, what.st_ino)] = path
    if not wanted or not os.path.isdir("/proc/self/fd"):
        return []
    found: dict[int, str] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with suppress(OSError):  # gone meanwhile, or not ours to look at
                for fd in os.listdir(f"/proc/{name}/fd"):
                    with suppress(OSError):
                        what = os.stat(f"/proc/{name}/fd/{fd}")
                        if (what.st_dev, what.st_ino) in wanted:
                            found[int(name)] = wanted[(what.st_dev, what.st_ino)]
    return [f"process {pid} ({command(pid)}) has {path} open" for pid, path in sorted(found.items())]


def database_open_in(path: str) -> list[str]:
    """As `open_in`, for a SQLite database and what belongs to it; also a lock of an unseen process tells."""
    told = open_in([path + ending for ending in ENDINGS])
    if told or sys.platform != "linux":
        return told
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # Asked of the kernel, not taken: would a lock for writing be refused, and because of whom?
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _SHARED_FIRST, _SHARED_SIZE, 0)
            kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
        finally:
            os.close(fd)
        if kind != fcntl.F_UNLCK:
            who = f"process {pid}" if pid > 0 else "a process out of sight"
            return [f"{who} holds a lock on {path}"]
    return []


def command(pid: int) -> str:
    """What a process was started as, cut to a line."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        words = ""
    return (words or "?")[:80]
