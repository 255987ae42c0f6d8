"""Holdfast is SIGKILLed and started again: the agent goes on, and the log is that of an undisturbed run."""

from __future__ import annotations

import time

import pytest

from tests.agents import scripts
from tests.agents.agent import LABELS
from tests.agents.events import expected, gist
from tests.agents.fake_model.script import Step, prompt
from tests.agents.holdfast import kill
from tests.agents.lab import Lab, References, Running, next_prompt
from tests.agents.waiting import until

ASKING = [label for label in LABELS if label != "codex"]  # `codex exec` cannot ask
ONE_TOOL = (
    Step(say="May I?", shell="echo one > one.txt; echo out-one"),
    Step(text="I was allowed to."),
)


def test_mid_stream(lab: Lab, references: References) -> None:
    running = lab.run(scripts.SLOW_TEXT)
    running.wait_for_step(1)
    time.sleep(0.5)
    _kill_and_settle(running)
    _is_as_undisturbed(running, references, scripts.SLOW_TEXT)
    if lab.agent.name != "gemini":  # it would have to wait for the next minute; `test_mid_tool` does
        next_prompt(lab, running)


def test_mid_tool(lab: Lab, references: References) -> None:
    running = lab.run(scripts.GATED_TOOL)
    lab.wait_for_file("started")
    _kill_and_settle(running)
    assert not lab.has_file("finished")
    lab.open_gate()
    _is_as_undisturbed(running, references, scripts.GATED_TOOL)
    next_prompt(lab, running)


def test_nobody_comes_back_until_the_agent_is_gone(lab: Lab, references: References) -> None:
    running = lab.run(scripts.SLOW_TOOL)
    lab.wait_for_file("started")
    running.task.kill_holdfast()
    time.sleep(5)
    lab.holdfast.settle()
    _is_as_undisturbed(running, references, scripts.SLOW_TOOL)


@pytest.mark.parametrize("label", ASKING)
@pytest.mark.parametrize("answered", ["while nobody drives it", "after the start"])
def test_while_a_permission_waits(lab: Lab, references: References, answered: str) -> None:
    running = lab.run(ONE_TOOL, "ask")
    running.wait_for_ask()
    assert not lab.has_file("one.txt")
    running.task.kill_holdfast()
    if answered == "after the start":
        lab.holdfast.settle()
        time.sleep(0.5)
    running.answer()
    _is_as_undisturbed(running, references, ONE_TOOL, "ask")
    assert lab.has_file("one.txt")
    if lab.agent.name != "gemini":
        next_prompt(lab, running)


@pytest.mark.parametrize("label", ASKING)
def test_a_denied_permission(lab: Lab) -> None:
    running = lab.run(ONE_TOOL, "ask")
    running.wait_for_ask()
    running.answer("deny")
    running.task.ended()
    assert not lab.has_file("one.txt")
    answers = [e["body"]["answer"] for e in running.task.log() if e["kind"] == "permission"]
    assert answers == [None, "deny"]


@pytest.mark.parametrize("label", ["codex"])
def test_an_agent_that_cannot_ask_is_held_narrowly_and_says_so(lab: Lab) -> None:
    running = lab.run(ONE_TOOL, "ask")
    running.task.ended()
    log = running.task.log()
    assert not lab.has_file("one.txt")
    assert any(e["kind"] == "notice" and "sandbox" in e["body"]["text"] for e in log)


def test_while_it_starts(lab: Lab) -> None:
    """Struck anywhere between the command and the agent's first word: what was queued is run, once."""
    begun = time.monotonic()
    first = lab.holdfast.launch(prompt(lab.words(), scripts.SLOW_START))
    lab.holdfast.first_agent()
    whole = time.monotonic() - begun
    lab.holdfast.queued(first).ended_as("succeeded")
    ran = 0
    for part in (0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.6, None):
        words = lab.words()
        said = prompt(words, scripts.SLOW_START)
        before = len(lab.holdfast.tasks())
        terminal = lab.holdfast.launch(said)
        if part is not None:
            time.sleep(whole * part)
        else:  # at least once when it was queued: on a busy machine all of the above may come too early
            until(lambda: len(lab.holdfast.tasks()) > before, "it is queued")  # noqa: B023
        kill(*lab.holdfast.processes())
        terminal.process.wait()
        lab.holdfast.settle()
        if len(lab.holdfast.tasks()) > before:
            ran += 1
            task = lab.holdfast.queued(terminal)
            task.ended_as("succeeded")
            assert gist(task.log()) == expected(said, scripts.SLOW_START)
            assert Running(lab, words, said, task).steps() == [0]
        else:
            assert lab.model.journal.scripted(words) == []
    assert ran


def test_again_and_again(lab: Lab, references: References) -> None:
    running = lab.run(scripts.EVERYTHING)
    running.wait_for_step(0)
    for _ in range(4):
        _kill_and_settle(running)
        time.sleep(0.3)
    _is_as_undisturbed(running, references, scripts.EVERYTHING)


def _kill_and_settle(running: Running) -> None:
    running.task.kill_holdfast()
    running.lab.holdfast.settle()


def _is_as_undisturbed(
    running: Running, references: References, steps: tuple[Step, ...], permissions: str = "allow"
) -> None:
    """It succeeded, nothing is lost and nothing is there twice."""
    running.task.ended_as("succeeded")
    assert running.plain() == references.log(running.lab.label, steps, permissions)
    assert running.steps() == list(range(len(steps)))
