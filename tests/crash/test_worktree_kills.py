"""A crash while a worktree is made: the next start leaves nothing behind, and never takes anybody's work."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from holdfast import ids
from holdfast.git import unfinished, worktree
from holdfast.home import Home
from holdfast.model.session import Worktree
from holdfast.runner import sessions
from holdfast.store.store import Store
from tests.crash import children, run_support

KILLS = 8
AT = "2026-01-31T12:00:00.000000Z"


@pytest.fixture
def home() -> Iterator[Home]:
    with run_support.scratch_home() as home:
        yield home


@pytest.fixture
def repo(home: Home, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    path = os.path.join(home.path, "repo")
    os.mkdir(path)
    git(path, "init", "-q")
    for n in range(300):
        with open(os.path.join(path, f"file-{n}"), "w") as file:
            file.write(f"{n}\n" * 2000)
    git(path, "add", ".")
    git(path, "-c", "user.name=T", "-c", "user.email=t@example.invalid", "commit", "-qm", "one")
    return path


def git(cwd: str, *args: str) -> str:
    done = subprocess.run(("git", *args), cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout


def make_and_die(home: Home, repo: str, session: str, pause: float | None) -> None:
    """A process that is killed while git works, or right after it; git's own process group dies with it."""

    def make(say: Callable[[str], None]) -> None:
        os.setsid()
        say("begins")
        asyncio.run(worktree.make(repo, session, home.worktrees, AT))
        say("made")
        time.sleep(60)

    child = children.start(make)
    child.wait_for_word()
    if pause is None:
        path = os.path.join(home.worktrees, f"repo-{session}", "file-299")
        deadline = time.monotonic() + 60
        while not os.path.exists(path):
            assert time.monotonic() < deadline
            time.sleep(0.002)
    else:
        children.pause(pause)
    child.kill()
    deadline = time.monotonic() + 60
    while end_git(home):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def end_git(home: Home) -> bool:
    """Kill every git that works below the home, as a crash of the machine would; whether there was one."""
    found = False
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/comm") as file:
                is_git = file.read() == "git\n"
            if is_git and os.readlink(f"/proc/{name}/cwd").startswith(home.path):
                os.kill(int(name), 9)
                found = True
        except OSError:
            continue
    return found


def start(home: Home) -> None:
    """What a start does about it."""
    run_support.with_store(home, lambda store: sessions.sweep_worktrees(store, home.worktrees))


def is_clean(home: Home, repo: str) -> bool:
    assert git(repo, "worktree", "list").count("\n") == 1
    assert "holdfast/" not in git(repo, "branch", "--list")
    return os.listdir(home.worktrees) == []


def test_what_a_crash_left_of_a_worktree_is_removed(home: Home, repo: str) -> None:
    choice = random.Random(3)
    seen = set()
    for _ in range(KILLS):
        make_and_die(home, repo, ids.new(ids.SESSION), choice.choice([None, choice.uniform(0, 0.3)]))
        seen.add(len(os.listdir(home.worktrees)) if os.path.isdir(home.worktrees) else 0)
        start(home)
        assert not os.path.isdir(home.worktrees) or is_clean(home, repo)
    assert 2 in seen, "a note and a folder"


@pytest.mark.parametrize("work", ["new file", "changed file", "commit"])
def test_a_folder_with_work_in_it_stays(home: Home, repo: str, work: str) -> None:
    session = ids.new(ids.SESSION)
    make_and_die(home, repo, session, None)
    path = os.path.join(home.worktrees, f"repo-{session}")
    if work == "commit":
        git(path, "reset", "-q", "--hard")
    with open(os.path.join(path, "file-7" if work == "changed file" else "mine"), "a") as file:
        file.write("mine")
    if work == "commit":
        git(path, "add", "mine")
        git(path, "-c", "user.name=T", "-c", "user.email=t@example.invalid", "commit", "-qm", "mine")
        os.unlink(os.path.join(path, "mine"))
    start(home)
    assert os.path.isdir(path) and f"holdfast/{session}" in git(repo, "branch", "--list")


def test_one_that_is_being_made_or_has_its_session_is_left_alone(home: Home, repo: str) -> None:
    async def make(store: Store) -> tuple[Worktree, str]:
        session = await store.create_session("demo", cwd=repo)
        return await worktree.make(repo, session.id, home.worktrees, AT), session.id

    made, session = run_support.with_store(home, make)
    assert [found.session for found in unfinished.left_in(home.worktrees)] == [session]
    start(home)
    assert os.path.isdir(made.path) and not list(unfinished.left_in(home.worktrees))
    again = ids.new(ids.SESSION)
    asyncio.run(worktree.make(repo, again, home.worktrees, AT))  # by a process that lives
    start(home)
    assert os.path.isdir(os.path.join(home.worktrees, f"repo-{again}"))
