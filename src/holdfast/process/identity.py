"""Which process is meant: a pid is reused, so its start and the boot it ran in belong to it."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import NamedTuple

from holdfast.model.task import Owner

HAS_PROC = os.path.exists("/proc/self/stat")

_DEAD = (b"Z", b"X", b"x")
_STATE, _PPID, _SESSION, _THREADS, _STARTED = 0, 1, 3, 17, 19  # behind the name; proc(5) counts from 3


class Ident(NamedTuple):
    """One process, told from every other that has or had its pid."""

    pid: int
    started: float
    boot: str


class Stat(NamedTuple):
    """What we need of a process's stat line."""

    pid: int
    name: str
    ppid: int
    session: int
    started: float
    gone: bool


@lru_cache(maxsize=1)
def boot_id() -> str:
    """What tells this boot of the machine from every other."""
    if HAS_PROC:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    from holdfast.process import psutil_backend

    return psutil_backend.boot_id()


def started(pid: int) -> float | None:
    """When that process was started, as the platform counts; None if there is none, or only its zombie."""
    if not HAS_PROC:
        from holdfast.process import psutil_backend as elsewhere

        return elsewhere.started(pid)
    found = stat_of(pid)
    return None if found is None or found.gone else found.started


def is_alive(pid: int, started: float, boot: str) -> bool:
    """Whether that very process still runs."""
    return boot == boot_id() and _now(pid) == started


def me(node: str) -> Owner:
    """This process on that node, as the owner of a task."""
    pid = os.getpid()
    return Owner(host=node, pid=pid, started=_now(pid) or 0.0, boot=boot_id())


def stat_of(pid: int) -> Stat | None:
    """What /proc says of a process; None if it has none of that pid, or hides another user's (hidepid)."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return read_stat(file.read(4096))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def read_stat(line: bytes) -> Stat | None:
    """A stat line's fields; None if it is not a whole one."""
    head, close, rest = line.rpartition(b")")  # the name may hold spaces and parentheses
    pid, space, name = head.partition(b" (")
    fields = rest.split()
    if not close or not space or len(fields) <= _STARTED + 1:  # one more: the last of a torn line may be cut
        return None
    try:
        # A dead first thread of a process whose other threads run shows as a zombie too.
        gone = fields[_STATE] in _DEAD and int(fields[_THREADS]) <= 1
        ppid, session, start = int(fields[_PPID]), int(fields[_SESSION]), float(fields[_STARTED])
        return Stat(int(pid), name.decode(errors="replace"), ppid, session, start, gone)
    except ValueError:
        return None


_now = started  # under a name that no parameter has
