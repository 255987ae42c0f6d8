"""Ending a tree of processes, and never another one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from holdfast import ids
from holdfast.process import identity
from holdfast.process import kill as ending
from holdfast.process import table as tree
from holdfast.process.table import MARK
from tests.crash.spool_support import SYSTEM_PATH, child, gone, seen, until

IGNORES = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
)


async def test_a_polite_process_is_only_asked() -> None:
    with child(["sleep", "60"]) as process:
        began = time.monotonic()
        assert await ending.end([seen(process.pid)], 10.0) == []
        assert time.monotonic() - began < 5
        assert process.wait() == -signal.SIGTERM


async def test_one_that_does_not_listen_is_killed_after_the_grace() -> None:
    with child([sys.executable, "-c", IGNORES]) as process:
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        assert await ending.end([seen(process.pid)], 0.2) == []
        assert time.monotonic() - began >= 0.2
        assert process.wait() == -signal.SIGKILL


async def test_a_zombie_counts_as_gone() -> None:
    with child(["sleep", "60"]) as process:
        victim = seen(process.pid)
        process.kill()
        until(lambda: gone(victim))
        assert await ending.end([victim], 5.0) == []


@pytest.mark.parametrize("by_descriptor", [True, False])
async def test_another_process_with_the_pid_is_never_signalled(
    by_descriptor: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_descriptor:
        monkeypatch.delattr(os, "pidfd_open")
    with child(["sleep", "60"]) as process:
        other = seen(process.pid)._replace(started=1.0)
        assert not ending.ask(other, signal.SIGKILL)
        assert await ending.end([other], 0.05) == []
        await asyncio.sleep(0.05)
        assert process.poll() is None
        assert ending.ask(seen(process.pid), signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not ending.ask(other, signal.SIGKILL)


async def test_what_is_below_is_ended_too_also_what_is_started_meanwhile() -> None:
    """On SIGTERM this one starts a child that ignores SIGTERM, in a session of its own, and waits for it."""
    task = ids.new(ids.TASK)
    late = "trap '' TERM; setsid sleep 62 & wait"
    script = f'trap "{late}" TERM; sleep 61 & echo 1; wait; wait'
    with child(["sh", "-c", script], {"PATH": SYSTEM_PATH, MARK: task}) as process:
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        assert await ending.end([seen(process.pid)], 0.4) == []
        assert time.monotonic() - began >= 0.4, "the late one went by itself"
        assert tree.marked(tree.table(), task) == []


async def test_an_orphan_made_by_the_signal_is_found_by_looking_for_the_task() -> None:
    """Its parent is gone at once: only a look by the mark finds it."""
    task = ids.new(ids.TASK)
    script = "trap 'setsid sleep 61 >/dev/null & exit' TERM; echo 1; while :; do sleep 0.05; done"
    with child(["sh", "-c", script], {"PATH": SYSTEM_PATH, MARK: task}) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert await ending.end([seen(process.pid)], 2.0, lambda: tree.survivors(task, [], ())) == []
        assert tree.marked(tree.table(), task) == []


async def test_we_never_end_ourselves() -> None:
    program = (
        "import asyncio, os\n"
        "from holdfast.process import kill as ending; from holdfast.process import table as tree\n"
        "above = tree.table()[os.getppid()]\n"
        "print(len(asyncio.run(ending.end([above], 0.1))))\n"
    )
    with child(["sh", "-c", f"{sys.executable} -c '{program}'; :"], dict(os.environ)) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"0\n"


async def test_what_cannot_be_ended_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "KILL_WAIT_S", 0.05)
    monkeypatch.setattr(ending, "ask", lambda process, number: False)
    with child(["sleep", "60"]) as process:
        victim = seen(process.pid)
        assert await ending.end([victim], 0.02) == [victim]


def test_a_signal_reaches_the_very_process() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        started = identity.started(process.pid)
        assert started is not None
        assert ending.ask(identity.Ident(process.pid, started, identity.boot_id()), signal.SIGINT)
        assert process.wait() == -signal.SIGINT
