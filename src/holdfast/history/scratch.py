"""Temporary folders that go away: with the context, or, after a SIGKILL, when the next one is made.

A folder is locked for as long as its maker lives. The kernel lets go of the lock when that dies, which also
tells the living of another PID namespace from the dead.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PREFIX = "holdfast-copy-"
YOUNG_S = 60.0  # a folder this new may be one that is not locked yet


@contextmanager
def folder() -> Iterator[str]:
    """A new folder for us alone; those of makers that are gone are taken away."""
    base = tempfile.gettempdir()
    _sweep(base)
    made = tempfile.mkdtemp(prefix=PREFIX, dir=base)
    try:
        held = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield made
        finally:
            os.close(held)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _sweep(base: str) -> None:
    with suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):  # somebody else's, gone meanwhile, or still held
                    _remove(entry.path)


def _remove(path: str) -> None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    held = os.open(path, flags)
    try:
        what = os.fstat(held)
        if what.st_uid == os.geteuid() and time.time() - what.st_mtime > YOUNG_S:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(held)
