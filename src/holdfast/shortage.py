"""Passing shortages of this machine: too few processes, files or memory, a full disk.

They say nothing about a task: it is tried again when there is room, and no try is counted.
"""

from __future__ import annotations

import errno
import os
import resource
import time
from typing import Literal

import msgspec

from holdfast import errors, timestamps

Resource = Literal["processes", "files", "memory", "disk"]

OF_ERRNO: dict[int, Resource] = {
    errno.EAGAIN: "processes",
    errno.EMFILE: "files",
    errno.ENFILE: "files",
    errno.ENOMEM: "memory",
    errno.ENOSPC: "disk",
    errno.EDQUOT: "disk",
}
FIRST_S, LONGEST_S = 1.0, 10.0  # between tries to start something
STALE_S = 30.0  # a shortage that nobody met for so long is over
RESERVE = 64  # descriptors that connections may not take: runs and the store need them
FULL_BYTES = 1 << 20  # with less room than this a disk counts as full


class Shortage(msgspec.Struct, frozen=True):
    """What is lacking."""

    what: Resource
    text: str
    since: str


def resource_of(problem: BaseException | None) -> Resource | None:
    """What was lacking when something failed; None if it failed for another reason."""
    while problem is not None:
        if isinstance(problem, MemoryError):
            return "memory"
        if isinstance(problem, errors.DiskFull):
            return "disk"
        if isinstance(problem, OSError) and problem.errno in OF_ERRNO:
            return OF_ERRNO[problem.errno]
        if isinstance(problem, RuntimeError) and "can't start new thread" in str(problem):
            return "processes"
        if (
            isinstance(problem, (errors.StoreUnreadable, errors.StoreBusy))
            and "unable to open" in str(problem)
            and _no_file_opens()
        ):
            return "files"
        problem = problem.__cause__ or problem.__context__
    return None


def _no_file_opens() -> bool:
    """SQLite says only that it cannot open a file, not why."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as problem:
        return problem.errno in (errno.EMFILE, errno.ENFILE)
    return False


class Shortages:
    """What this process lacks just now, and when it may try to start something again."""

    def __init__(self) -> None:
        self._found: dict[Resource, tuple[Shortage, float]] = {}  # and when it was met last
        self._pause = 0.0
        self._next = 0.0

    def note(self, what: Resource, text: str) -> None:
        """Something failed for lack of it: starts rest for a moment, longer each time."""
        now = time.monotonic()
        known = self._found.get(what)
        since = known[0].since if known is not None else timestamps.now()
        self._found[what] = (Shortage(what, text, since), now)
        if now >= self._next:
            self._pause = min(max(FIRST_S, self._pause * 2), LONGEST_S)
            self._next = now + self._pause

    def note_problem(self, problem: BaseException) -> bool:
        """Note what was lacking when something failed; False if it failed for another reason."""
        what = resource_of(problem)
        if what is not None:
            self.note(what, str(problem))
        return what is not None

    def over(self) -> None:
        """Something was started."""
        self._found.clear()
        self._pause = self._next = 0.0

    @property
    def is_resting(self) -> bool:
        """Whether nothing should be started yet."""
        return time.monotonic() < self._next

    @property
    def is_trying(self) -> bool:
        """Whether one start should show first that the shortage is over."""
        return bool(self._found)

    def current(self, home: str) -> Shortage | None:
        """What is lacking; a disk is looked at, the rest is known from what failed."""
        now = time.monotonic()
        self._found = {what: known for what, known in self._found.items() if now - known[1] < STALE_S}
        for shortage, _ in self._found.values():
            return shortage
        return disk_shortage(home)


def disk_shortage(home: str) -> Shortage | None:
    """A full disk, as far as it can be seen without writing."""
    try:
        found = os.statvfs(home)
    except OSError:
        return None
    if found.f_blocks and found.f_bavail * found.f_frsize < FULL_BYTES:
        return Shortage("disk", f"no room is left on the disk of {home}", timestamps.now())
    return None


def raise_file_limit() -> int:
    """Raise this process's limit of open files as far as it may; the limit then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # macOS names a hard limit that it does not grant
            return soft
    return hard if hard != resource.RLIM_INFINITY else 1 << 20
