"""Agents that misbehave, each in its own way: the task ends rightly, and nothing of what it said is lost."""

from __future__ import annotations

import gzip
import json
import os
import resource
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.model.event import Event
from holdfast.runner import control
from holdfast.runner.task_run import STDERR_LIMIT
from holdfast.spool import archive
from holdfast.spool.task_dir import Spool
from tests.crash import run_support
from tests.crash.run_support import Running
from tests.crash.support import TORTURE
from tests.support import log_oracle as oracle
from tests.support import odd_agent

MEGABYTES = 300 if TORTURE else 60


@pytest.fixture
def home() -> Iterator[Home]:
    with run_support.scratch_home() as home:
        yield home


def odd(home: Home, way: str, **options: Any) -> Running:
    command = json.dumps([sys.executable, odd_agent.__file__, way, str(MEGABYTES)])
    with open(home.config, "w") as file:
        file.write(f"[run]\ngrace_s = 0.5\nleave_s = 0.5\n[agents.odd]\ncommand = {command}\n")
    return Running(home, agent="odd", **options)


def told(running: Running) -> list[Event]:
    """The log, which must be what the spool tells."""
    events = running.log()
    registry = AgentRegistry.from_config({"odd": {"command": ["x"]}})
    assert oracle.logged(events, running.id) == oracle.spooled(running.home, running.id, registry, events)
    return events


def bodies(events: list[Event], kind: str, name: str = "text") -> list[str]:
    return [event.body[name] for event in events if event.kind == kind]


def test_it_leaves_without_a_word(home: Home) -> None:
    running = odd(home, "silent")
    task = running.ended()
    assert task.status == "failed" and task.delivery == "sent"
    assert task.reason == "the agent exited with status 0 before it took the prompt"


@pytest.mark.parametrize("way", ["flood", "cut"])
def test_it_says_much_without_a_newline(home: Home, way: str) -> None:
    running = odd(home, way)
    task = running.ended()
    assert task.status == ("succeeded" if way == "flood" else "interrupted")
    (notice,) = [e.body for e in told(running) if e.kind == "notice"]
    assert notice["code"] == "too_long" and notice["bytes"] >= MEGABYTES << 20
    spool = Spool(home.task(task.id))
    assert os.path.exists(spool.keep), "the log does not hold it, so the spool must"
    with gzip.open(spool.stdout + ".gz") as file:
        assert sum(map(len, iter(lambda: file.read(1 << 20), b""))) > MEGABYTES << 20


def test_it_prints_lines_without_end_and_can_be_cancelled(home: Home) -> None:
    running = odd(home, "yes")
    running.until(lambda: running.task().spool > 10_000)
    running.commit(control.cancel_event("ann"))
    task = running.ended()
    assert task.status == "cancelled"
    assert "not_json" in bodies(running.log(), "notice", "code")


def test_its_stderr_is_bounded_and_its_end_kept(home: Home) -> None:
    task = odd(home, "grumble").ended()
    assert task.outcome is not None and task.outcome["exit"] == 3
    assert task.outcome["stderr"].endswith("nul \0 and \ufffd, the last word\n")
    with gzip.open(Spool(home.task(task.id)).stderr + ".gz") as file:
        kept = sum(map(len, iter(lambda: file.read(1 << 20), b"")))
    assert kept <= STDERR_LIMIT + (1 << 20)


def test_it_leaves_a_daemon_that_holds_its_stdout(home: Home) -> None:
    task = odd(home, "daemon").ended()
    assert task.status == "succeeded" and task.outcome is not None
    (survivor,) = task.outcome["survivors"]
    os.kill(survivor["pid"], 9)


def test_it_speaks_of_another_session(home: Home) -> None:
    running = odd(home, "renamed")
    assert running.ended().status == "succeeded"
    events = told(running)
    assert bodies(events, "notice", "code") == ["other_session"]
    assert bodies(events, "assistant") == ["minedone"]
    assert [e.body["native_id"] for e in events if e.kind == "token"] == [odd_agent.SESSION]


@pytest.mark.parametrize("how", ["limit", "cancel"])
def test_it_never_answers(home: Home, how: str) -> None:
    running = odd(home, "mute", **({"time_limit_s": 0.5} if how == "limit" else {}))
    if how == "cancel":
        running.until(running.spool.agent)
        running.commit(control.cancel_event("ann"))
    task = running.ended()
    assert task.status == "cancelled" and task.delivery == "sent"
    assert str(task.reason) == ("by its time limit of 0.5 s" if how == "limit" else "by ann")


def test_it_closes_its_stdout_and_lives_on(home: Home) -> None:
    running = odd(home, "dumb", time_limit_s=1.0)
    task = running.ended()
    assert task.status == "cancelled" and bodies(told(running), "assistant") == ["I close"]


def test_it_speaks_after_its_final_word(home: Home) -> None:
    running = odd(home, "late")
    assert running.ended().status == "succeeded"
    assert "".join(bodies(told(running), "assistant")) == "doneone more thing"


def test_it_does_not_leave(home: Home) -> None:
    task = odd(home, "deaf").ended()
    assert task.status == "succeeded" and task.outcome is not None and task.outcome["exit"] == 128 + 9


def test_it_gives_a_reason_that_no_header_can_hold(home: Home) -> None:
    running = odd(home, "wordy")
    task = running.ended()
    assert task.status == "failed" and str(task.reason).startswith("no such ? thing")
    assert len(str(task.reason)) <= 1000
    assert len(bodies(told(running), "error")[0]) > 100_000


def test_a_message_longer_than_memory_is_recorded_in_parts(home: Home) -> None:
    """It never kills the hub, neither as it comes nor when its spool is read again from the first byte."""

    peak = os.path.join(home.path, "peak")

    def measure() -> None:
        compress = archive.compress
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        def told(spool: Spool) -> None:
            with open(peak, "w") as file:
                file.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
            compress(spool)

        vars(archive).update(compress=told)

    running = odd(home, "stream", prepare=measure)
    running.until(lambda: running.task().spool > MEGABYTES << 19)
    running.worker.kill()
    running.worker = run_support.worker(home, measure)
    task = running.ended()
    assert task.status == "succeeded", task.reason
    parts = [event.body for event in running.log() if event.kind == "assistant"]
    assert sum(len(body["text"]) for body in parts) == MEGABYTES << 20
    assert [body["part"] for body in parts] == list(range(1, len(parts) + 1))
    assert all(body.get("more") for body in parts[:-1]) and "more" not in parts[-1]
    assert task.outcome is not None
    assert task.outcome["answer_cut"] and len(task.outcome["answer"]) == 100_000
    assert not [event for event in running.log() if event.kind == "error"]
    with open(peak) as file:
        assert int(file.read()) < 60 * 1024, "kilobytes, whatever the length of the message"


@pytest.mark.parametrize("failures, status", [(1, "succeeded"), (2, "failed")])
def test_an_opencode_that_loses_the_race_for_its_database_is_started_once_more(
    home: Home, tmp_path: Path, failures: int, status: str
) -> None:
    """Two of them create it at the same moment, and one fails before it takes a prompt."""
    program = str(tmp_path / "opencode-test")  # the home may be where nothing can be executed
    agent = shlex.join([sys.executable, odd_agent.__file__, "plain"])
    with open(program, "w") as file:
        file.write(
            "#!/bin/sh\n"
            f"for n in {' '.join(map(str, range(failures)))}; do\n"
            f"  if mkdir {shlex.quote(home.path)}/failed-$n 2>/dev/null; then\n"
            "    echo 'SQLiteError: database is locked (SQLITE_BUSY)' >&2; exit 1\n"
            "  fi\n"
            "done\n"
            f"ODD_SESSION=ses_0123456789abcdef exec {agent}\n"
        )
    os.chmod(program, 0o755)
    with open(home.config, "w") as file:
        file.write(f"[agents.opencode]\npath = {json.dumps(program)}\n")
    running = Running(home, agent="opencode")
    task = running.ended()
    assert task.status == status, task.reason
    notices = [event.body["code"] for event in running.log() if event.kind == "notice"]
    assert notices.count("given_back") == 1
    if failures == 2:
        assert task.outcome is not None and "SQLITE_BUSY" in task.outcome["stderr"]
