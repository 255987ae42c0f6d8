"""Temporary folders: none is left, also after a SIGKILL, and none that is in use is taken away."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.transcripts import sqlite_snapshot

HOLDER = """
import os, sys
from holdfast.transcripts import sqlite_snapshot as scratch
with scratch.folder() as made:
    open(os.path.join(made, "file"), "w").close()
    print(made, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return str(tmp_path)


@contextmanager
def holder(base: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process with a folder of its own, which is old."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        env={**os.environ, "TMPDIR": base},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        made = process.stdout.readline().strip()
        age(made)
        yield process, made
    finally:
        process.kill()
        process.communicate()


def age(path: str) -> None:
    os.utime(path, (time.time() - 3600, time.time() - 3600))


def test_a_folder_goes_with_its_context(base: str) -> None:
    with sqlite_snapshot.folder() as made:
        assert os.listdir(base) == [os.path.basename(made)] and os.stat(made).st_mode & 0o777 == 0o700
    assert os.listdir(base) == []


def test_what_a_killed_process_left_goes_when_the_next_folder_is_made(base: str) -> None:
    with holder(base) as (process, left):
        process.kill()
        process.wait()
        assert os.listdir(left) == ["file"]
        with sqlite_snapshot.folder() as made:
            assert os.listdir(base) == [os.path.basename(made)]


def test_what_a_living_process_holds_stays(base: str) -> None:
    with holder(base) as (_, held), sqlite_snapshot.folder() as mine:
        age(mine)
        with sqlite_snapshot.folder():
            assert os.listdir(held) == ["file"] and os.path.isdir(mine)


def test_what_is_new_or_not_ours_stays(base: str) -> None:
    new, odd = (
        os.path.join(base, f"{sqlite_snapshot.PREFIX}new"),
        os.path.join(base, f"{sqlite_snapshot.PREFIX}file"),
    )
    other, link = os.path.join(base, "other"), os.path.join(base, f"{sqlite_snapshot.PREFIX}link")
    for path in (new, other):
        os.mkdir(path)
    os.symlink(other, link)
    with open(odd, "w"):
        pass
    for path in (odd, other):
        age(path)
    with sqlite_snapshot.folder():
        assert all(os.path.exists(path) for path in (new, odd, other, link))
