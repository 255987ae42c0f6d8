"""The relay: a program of its own that passes `sent` on to one agent's stdin, each byte exactly once.

Started by relay_keeper.sh in the task's folder: descriptor 6 is `sent`, standard output is the agent's stdin.
`splice` moves bytes and file offset in one system call, and the keeper holds the same open file. So a relay
that is killed at any moment leaves an offset that says exactly what the agent was given.
It imports nothing of Holdfast, so that it starts quickly.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import sys

NAME = b"holdfast-relay"  # at most 15 bytes; what ps, pgrep and pkill see
SENT = 6
AGENT = 1
INPUT = "stdin"  # the fifo keeps this name for as long as the input is open

PIECE = 1 << 20
ATOMIC = 4096  # bytes that a pipe takes whole or not at all on every system that we know
LOOK_S = 1.0  # in case a file system reports no change
QUICK_LOOK_S = 0.05  # where inotify cannot be had
PR_SET_NAME = 15
IN_MODIFY = 2


def main() -> int:
    """Record this process, then pass on what comes until the input has to end."""
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux":
        libc.prctl(PR_SET_NAME, NAME, 0, 0, 0)
    record()
    changes = watch(libc)
    try:
        while os.path.exists(INPUT):
            while pass_on():
                pass
            wait(changes)
    except BrokenPipeError:
        pass
    return 0


def record() -> None:
    """Append who this is to `relays`; to close the input, remove its name first, then read this."""
    try:
        with open("/proc/self/stat", "rb") as file:
            line = file.read().strip()
    except FileNotFoundError:
        line = b"%d" % os.getpid()
    fd = os.open("relays", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, line + b"\n")
    os.close(fd)


def pass_on() -> int:
    """Pass on the next bytes; how many. Waits while the agent does not read."""
    if hasattr(os, "splice"):
        try:
            return os.splice(SENT, AGENT, PIECE)
        except OSError as problem:
            if problem.errno not in (errno.EINVAL, errno.ENOSYS):
                raise
    # No splice for this file system: a kill between the two calls would repeat one piece.
    at = os.lseek(SENT, 0, os.SEEK_CUR)
    data = os.pread(SENT, ATOMIC, at)
    count = os.write(AGENT, data) if data else 0
    os.lseek(SENT, at + count, os.SEEK_SET)
    return count


def watch(libc: ctypes.CDLL) -> int | None:
    """An inotify descriptor that becomes readable when `sent` changes; None where there is none left."""
    if sys.platform != "linux":
        return None
    fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0 or libc.inotify_add_watch(fd, b"sent", IN_MODIFY) < 0:
        return None
    return int(fd)


def wait(changes: int | None) -> None:
    """Wait until `sent` may have grown; BrokenPipeError when nobody reads the agent's stdin any more."""
    poll = select.poll()
    poll.register(AGENT, 0)  # without asking, it tells when the last reader is gone
    if changes is not None:
        poll.register(changes, select.POLLIN)
    for fd, _ in poll.poll(1000 * (QUICK_LOOK_S if changes is None else LOOK_S)):
        if fd == AGENT:
            raise BrokenPipeError
        os.read(fd, 1 << 14)


if __name__ == "__main__":
    sys.exit(main())
