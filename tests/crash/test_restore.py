"""A backup is restored as docs/operations.md says: what ran is not run again, and no copy of it is lost."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import sqlite3
from collections.abc import Iterator

import pytest

from holdfast.home import Home
from holdfast.model.task import Task
from holdfast.spool import archive
from holdfast.spool.task_dir import Spool
from tests.crash import run_steps, run_support
from tests.crash.run_support import Running
from tests.crash.test_run_lost import END, GATE, codes, is_whole
from tests.crash.test_run_steps import prompts_taken

OUTSIDE = shutil.ignore_patterns("state.db*", "demo", "gate")  # the agents' own stores are not in a home


@pytest.fixture
def home() -> Iterator[Home]:
    with run_support.scratch_home() as home:
        yield home


@pytest.fixture
def backup(home: Home) -> Iterator[str]:
    folder = home.path + "-backup"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def back_up(home: Home, folder: str) -> None:
    """The two commands, with a hub or without."""
    os.mkdir(folder)
    with (
        contextlib.closing(sqlite3.connect(home.database)) as live,
        contextlib.closing(sqlite3.connect(os.path.join(folder, "state.db"))) as copy,
    ):
        live.backup(copy)
    shutil.copytree(home.path, os.path.join(folder, "home"), ignore=_ignored)


def _ignored(folder: str, names: list[str]) -> set[str]:
    fifos = {name for name in names if name == "stdin"}  # copytree cannot copy one; rsync makes another
    return OUTSIDE(folder, names) | fifos


def restore(home: Home, folder: str) -> None:
    """Over the home as it is, with no hub running."""
    for end in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(home.database + end)
    shutil.copytree(os.path.join(folder, "home"), home.path, dirs_exist_ok=True)
    shutil.copy2(os.path.join(folder, "state.db"), home.database)


def again(running: Running) -> Task:
    """The task after a worker has looked at the restored home."""
    running.worker = run_support.worker(running.home, run_steps.quick)
    return running.ended()


def test_a_prompt_that_was_queued_in_the_backup_and_has_finished_since(home: Home, backup: str) -> None:
    (task,) = run_support.queue(home, [run_support.script({"say": "words"}, END)])
    back_up(home, backup)
    run_support.undisturbed(home)
    running = Running.__new__(Running)
    running.home, running.id = home, task
    running.spool = Spool(home.task(task))
    before = running.task()
    assert before.status == "succeeded"
    restore(home, backup)
    assert running.task().status == "queued"
    after = again(running)
    assert (after.status, after.outcome) == (before.status, before.outcome)
    assert "drained" in codes(running.log(), "notice")
    is_whole(running, after)


@pytest.mark.parametrize("ended", [True, False])
def test_a_prompt_that_ran_in_the_backup(home: Home, backup: str, ended: bool) -> None:
    """The older output comes over the newer: both are kept, and the more complete one is read."""
    running = Running(home, {"say": "words"}, GATE, END, prepare=run_steps.quick)
    running.until_event("tool_progress")
    back_up(home, backup)
    older = len(os.listdir(running.spool.path))
    with open(running.spool.stdout, "rb") as file:
        partial = file.read()
    running.open_gate()
    assert running.ended().status == "succeeded" and older
    with gzip.open(running.spool.stdout + ".gz") as packed:
        whole = packed.read()
    if not ended:  # the home was lost, and all there is is the backup
        shutil.rmtree(running.spool.path)
    restore(home, backup)
    assert running.task().status == "running"
    task = again(running)
    assert prompts_taken(home) == 1
    if not ended:
        assert task.status == "interrupted"
        return
    assert task.status == "succeeded"
    is_whole(running, task)
    with gzip.open(running.spool.stdout + ".gz") as packed:
        assert packed.read() == whole
    with open(running.spool.stdout + ".other-1", "rb") as file:
        assert partial.startswith(file.read())
    assert os.path.exists(running.spool.keep)


def test_two_different_copies_are_both_kept(home: Home) -> None:
    spool = Spool(os.path.join(home.path, "t"))
    spool.make({})
    for content, name in ((b"one", "stdout.gz"), (b"another", "stdout.gz.other-1")):
        with gzip.open(os.path.join(spool.path, name), "wb") as packed:
            packed.write(content)
    with open(spool.stdout, "wb") as file:
        file.write(b"three")
    archive.compress(spool)
    found = {}
    for name in ("stdout.gz", "stdout.gz.other-1", "stdout.gz.other-2"):
        with gzip.open(os.path.join(spool.path, name)) as packed:
            found[packed.read()] = name
    assert set(found) == {b"one", b"another", b"three"} and found[b"three"] == "stdout.gz"
    assert not os.path.exists(spool.stdout) and os.path.exists(spool.keep)
