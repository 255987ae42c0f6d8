"""The agent is killed: what it did is known, its open call is marked, and what still runs of it is named."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.agents import scripts
from tests.agents.events import expected, gist
from tests.agents.fake_model.script import prompt
from tests.agents.holdfast import Task
from tests.agents.lab import Lab, Running
from tests.agents.told import logged, told

Kill = Callable[[Task], None]


def _agent(task: Task) -> None:
    task.kill_agent()


def _both(task: Task) -> None:
    task.kill_both()


@pytest.fixture(params=[_agent, _both], ids=["agent", "both"])
def kill(request: pytest.FixtureRequest) -> Kill:
    """The agent alone, or Holdfast with it."""
    found: Kill = request.param
    return found


def test_mid_stream(lab: Lab, kill: Kill) -> None:
    running = lab.run(scripts.SLOW_TEXT)
    running.wait_for_step(1)
    time.sleep(0.5)
    kill(running.task)
    lab.holdfast.settle()
    running.task.ended_as("interrupted")
    log = [event for event in running.task.log() if not event["replayed"]]
    whole = expected(running.said, scripts.SLOW_TEXT)
    assert gist(log)[: len(whole) - 1] == whole[:-1]
    half = gist(log)[len(whole) - 1 :]
    assert half == [] or (len(half) == 1 and whole[-1][1].startswith(half[0][1]))
    _nothing_lost(running)


def test_mid_tool(lab: Lab, kill: Kill) -> None:
    running = lab.run(scripts.LONG_TOOL)
    lab.wait_for_file("started")
    time.sleep(0.3)
    kill(running.task)
    lab.holdfast.settle()
    ended = running.task.ended_as("interrupted")
    _open_call_is_marked(running)
    survivors = ended["outcome"].get("survivors", [])
    named = any("sleep 6" in process["command"] for process in survivors)
    assert named == lab.agent.tools_outlive_it, ended["outcome"]
    assert all(isinstance(process["pid"], int) for process in survivors)
    _nothing_lost(running)


def test_asked_to_end(lab: Lab) -> None:
    """SIGTERM: some leave in order, some at once; none has given its final word."""
    running = lab.run(scripts.LONG_TOOL)
    lab.wait_for_file("started")
    time.sleep(0.3)
    running.task.kill_agent(signal.SIGTERM)
    running.task.ended_as("interrupted")
    ends = [e["body"]["outcome"] for e in running.task.log() if e["kind"] == "tool_summary"]
    # Claude Code 2.1.325 ends its tool and still tells so.
    assert ends in (["interrupted"], ["error"])
    _nothing_lost(running)


@pytest.mark.parametrize("victim", ["agent", "both"])
def test_while_it_starts(lab: Lab, victim: str) -> None:
    """Before the id is known: the prompt was not taken, so it is still there and is run again."""
    words = lab.words()
    said = prompt(words, scripts.SLOW_START)
    terminal = lab.holdfast.launch(said)
    agent = lab.holdfast.first_agent()
    os.kill(agent, signal.SIGKILL)
    task = lab.holdfast.queued(terminal)
    if victim == "both":
        task.kill_holdfast()
        lab.holdfast.settle()
    task.ended_as("succeeded")
    running = Running(lab, words, said, task)
    assert gist(task.log()) == expected(said, scripts.SLOW_START)
    assert running.steps() == [0]
    _nothing_lost(running)


def test_cancelled(lab: Lab) -> None:
    running = lab.run(scripts.LONG_TOOL)
    lab.wait_for_file("started")
    lab.holdfast.call("cancel", running.task.id)
    running.task.ended_as("cancelled")
    time.sleep(6.5)
    assert not lab.has_file("finished"), "its tool went on"
    ends = [e["body"]["outcome"] for e in running.task.log() if e["kind"] == "tool_summary"]
    assert len(ends) == 1 and ends[0] in ("interrupted", "error")


def _open_call_is_marked(running: Running) -> None:
    log = running.task.log()
    begun = [e["body"]["call"] for e in log if e["kind"] == "tool_progress"]
    ends = [(e["body"]["call"], e["body"]["outcome"]) for e in log if e["kind"] == "tool_summary"]
    assert len(begun) == 1
    assert ends == [(begun[0], "interrupted")]


def _nothing_lost(running: Running) -> None:
    """All that its stdout told is in the log, once and in order."""
    stdout = running.task.spool("stdout")
    assert told(running.lab.agent.name, stdout) == logged(running.task.log())
