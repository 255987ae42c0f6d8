"""A real file system of a few megabytes, which can be filled and made read-only."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.home import Home

FILLER = "filler"


class SmallDisk:
    """A mounted file system with a home on it."""

    def __init__(self, path: str):
        self.path = path
        self.home = Home(os.path.join(path, "home"))

    def fill(self, leave: int = 0) -> None:
        """Take all room but so many bytes."""
        with open(os.path.join(self.path, FILLER), "ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        if leave:
            path = os.path.join(self.path, FILLER)
            os.truncate(path, max(0, os.path.getsize(path) - leave))

    def make_room(self) -> None:
        """Give it all back."""
        os.unlink(os.path.join(self.path, FILLER))

    def free(self) -> int:
        """Bytes that are left."""
        stat = os.statvfs(self.path)
        return stat.f_bavail * stat.f_bsize

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Nothing can be written for a while."""
        _run("mount", "-o", "remount,ro", self.path)
        try:
            yield
        finally:
            _run("mount", "-o", "remount,rw", self.path)


@contextmanager
def mounted(folder: str, size: str = "3m") -> Iterator[SmallDisk]:
    """A small disk; the test is skipped where none may be mounted (RLIMIT_FSIZE is tested everywhere)."""
    os.makedirs(folder)
    try:
        _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "holdfast-test", folder)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system may be mounted here")
    try:
        yield SmallDisk(folder)
    finally:
        _run("umount", "-l", folder)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def fingerprint(folder: str) -> dict[str, str]:
    """All files below a folder with what is in them, but for SQLite's scratch paper: -shm, an empty -wal."""
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if not name.endswith("-shm") and (os.path.getsize(path) or not name.endswith("-wal")):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = hashlib.sha256(file.read()).hexdigest()
    return found
