"""Processes that belong to a stored session, for agents that leave no mark of them."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from holdfast.process import table as tree

ENDINGS = ("", "-wal", "-shm", "-journal")  # the files of a SQLite database
SHORTEST = 4  # characters of a command that is looked for


def named(program: str, native_id: str) -> list[int]:
    """The processes of a program that were started with that id as an argument."""
    found = []
    for process in tree.table().values():
        words = process.command.split()
        ours = process.pid == os.getpid() or any("holdfast" in word for word in words[:4])
        names_it = any(word == native_id or word.endswith(f"={native_id}") for word in words)
        if names_it and any(program in word for word in words[:4]) and not ours:
            found.append(process.pid)
    return sorted(found)


def titled(title: str, cwd: str | None) -> list[int]:
    """The processes in that folder that show this title in place of their command line; no run of ours."""
    if cwd is None:
        return []
    table = tree.table()
    ours = tree.marks(table)
    found = [process.pid for process in table.values() if process.command.strip() == title]
    return sorted(pid for pid in found if pid not in ours and _is_in(pid, cwd))


def writers(path: str) -> list[int]:
    """Those of them that can write to it: who only reads it, as we do to copy it, owns nothing."""
    return [pid for pid in holders(path) if _has_open(pid, os.stat(path), writing=True)]


def holders(path: str) -> list[int]:
    """The other processes that have that file open, as far as Linux tells."""
    try:
        wanted = os.stat(path)
        numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []
    return sorted(pid for pid in numbers if pid != os.getpid() and _has_open(pid, wanted))


def commands(dangling: list[dict[str, Any]], cwd: str | None) -> list[int]:
    """The processes that run the command of one of these calls in that folder, and what they started."""
    wanted = [tree.readable(command) for call in dangling if (command := _command(call))]
    wanted = [command.rstrip("…") for command in wanted if len(command) >= SHORTEST]
    if not wanted or cwd is None:
        return []
    table = tree.table()
    found: dict[int, None] = {}
    for process in table.values():
        # The shell that runs it may have words before it, and these count for the limit of its length.
        line = process.command.rstrip("…")
        runs = any(command in line or (len(line) >= 400 and line[60:] in command) for command in wanted)
        if runs and process.pid != os.getpid() and _is_in(process.pid, cwd):
            found[process.pid] = None
            found.update((below.pid, None) for below in tree.descendants(table, process.pid))
    return sorted(found)


def _has_open(pid: int, wanted: os.stat_result, writing: bool = False) -> bool:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):  # closed meanwhile
                found = os.stat(os.path.join(folder, name))
                same = (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
                if same and (not writing or _writes(pid, name)):
                    return True
    return False


def _writes(pid: int, descriptor: str) -> bool:
    with open(f"/proc/{pid}/fdinfo/{descriptor}") as file:
        flags = next((line.split()[1] for line in file if line.startswith("flags:")), "0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def _command(call: dict[str, Any]) -> str:
    given = call.get("input")
    command = given.get("command") if isinstance(given, dict) else None
    return command if isinstance(command, str) else ""


def _is_in(pid: int, cwd: str) -> bool:
    """Whether a process works there; where that is not told, its command must be enough."""
    try:
        return os.path.realpath(f"/proc/{pid}/cwd") == os.path.realpath(cwd)
    except OSError:
        return not os.path.isdir("/proc")


# --- Who has files of another program open: what a doctor must know before it touches them.

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
