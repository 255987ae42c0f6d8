"""Who holds a thread: Codex keeps a lock on a file of its own while it writes."""

from __future__ import annotations

import errno
import os

from holdfast.history import living

FOLDER = "thread-writer-locks"


def owners(root: str, native_id: str) -> list[int]:
    """The living processes that hold the thread's lock; the file is never made."""
    path = os.path.join(root, FOLDER, f"{native_id}.lock")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return []  # a clean exit removes it
    try:
        stat = os.fstat(descriptor)
        told = _told(stat.st_dev, stat.st_ino)
        if told is None:
            return living.holders(path) if _is_held(descriptor) else []
    finally:
        os.close(descriptor)
    # Which process took it is told, not who has it now.
    alive = [pid for pid in told if os.path.exists(f"/proc/{pid}")]
    return alive or (living.holders(path) if told else [])


def _told(device: int, inode: int) -> list[int] | None:
    """The holders as Linux lists them; None if it lists no lock at all."""
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            lines = file.readlines()
    except OSError:
        return None
    found = set()
    for line in lines:
        words = line.split()  # "12: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF"
        if len(words) < 6 or "->" in words or words[1] != "FLOCK" or not words[4].isdecimal():
            continue
        major, _, rest = words[5].partition(":")
        minor, _, number = rest.partition(":")
        here = f"{os.major(device):02x}", f"{os.minor(device):02x}"
        # A filesystem of layers tells another device here: then the inode must be enough.
        if number == str(inode) and ((major, minor) == here or major == "00"):
            found.add(int(words[4]))
    return sorted(found) if lines else None


def _is_held(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno in (errno.EWOULDBLOCK, errno.EAGAIN)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False
