"""Tasks on a PostgreSQL store: killed, cancelled, without the server, on a host that is not heard of."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.home import Home
from holdfast.model.task import ENDED
from holdfast.runner import control, worker
from tests.crash import run_support
from tests.crash.run_support import REGISTRY, Running
from tests.crash.test_run_steps import prompts_taken
from tests.support import log_oracle as oracle
from tests.support.postgres_server import Server

GATE: dict[str, Any] = {"tool": "shell", "run": "while [ ! -e gate ]; do sleep 0.05; done; echo through"}
END: dict[str, Any] = {"say": "the end"}


@pytest.fixture
def home() -> Iterator[Home]:
    with run_support.scratch_home() as home:
        yield home


@pytest.fixture
def shared(home: Home, postgres_url: str) -> Home:
    """A home whose store is in PostgreSQL."""
    run_support.use_store(home, postgres_url)
    return home


def is_whole(running: Running) -> None:
    events = running.log()
    assert oracle.logged(events, running.id) == oracle.spooled(running.home, running.id, REGISTRY, events)
    assert prompts_taken(running.home) == 1


def test_a_worker_is_killed_and_a_permission_waits(shared: Home) -> None:
    running = Running(shared, GATE, {"tool": "shell", "run": "echo asked", "ask": True}, END)
    running.until_event("tool_progress")
    running.replace_worker()
    running.open_gate()
    running.until_event("permission")
    running.replace_worker()
    run_support.answer_all(shared)
    assert running.ended().status == "succeeded"
    is_whole(running)


def test_cancel(shared: Home) -> None:
    running = Running(shared, {"tool": "shell", "run": "sleep 30.015625"}, END)
    running.until_event("tool_progress")
    running.commit(control.cancel_event("ann"))
    assert running.ended().status == "cancelled"


def test_the_server_is_killed_and_comes_back(home: Home, private_server: Server) -> None:
    run_support.use_store(home, private_server.url("runs"))
    running = Running(home, {"say": "before"}, GATE, {"tool": "shell", "run": "echo two"}, END)
    running.until_event("tool_progress")
    private_server.kill()
    running.open_gate()
    time.sleep(1.0)
    private_server.start()
    assert running.ended().status == "succeeded"
    is_whole(running)


# --- another host


def elsewhere() -> None:
    """This process is one of another node, whose lease is short."""
    vars(worker).update(LEASE_S=0.6, LOOK_S=0.1)


def look_from_here(running: Running, tmp_path: Path, until: Callable[[], bool]) -> None:
    """Workers of our own host come and go until something is so."""
    here = run_support.made(str(tmp_path / "here"))
    run_support.use_store(here, run_support.location(running.home).address)
    running.until(lambda: run_support.worker(here).rest() is not None and until())


def is_unreachable(running: Running) -> bool:
    status = running.task().status
    assert status not in ENDED, "unknown is not dead"
    return status == "unreachable"


@pytest.mark.parametrize("returns", ["the same worker", "another worker"])
def test_a_host_that_is_not_heard_of(shared: Home, tmp_path: Path, returns: str) -> None:
    running = Running(shared, GATE, END, prepare=elsewhere)
    running.until_event("tool_progress")
    os.kill(running.worker.pid, signal.SIGSTOP)
    look_from_here(running, tmp_path, lambda: is_unreachable(running))
    if returns == "the same worker":
        os.kill(running.worker.pid, signal.SIGCONT)
    else:
        os.kill(running.worker.pid, signal.SIGKILL)
        running.worker = run_support.worker(shared, elsewhere)
    running.until(lambda: running.task().status == "running")
    look_from_here(running, tmp_path, lambda: running.task().status == "running")
    running.open_gate()
    assert running.ended().status == "succeeded"
    is_whole(running)
