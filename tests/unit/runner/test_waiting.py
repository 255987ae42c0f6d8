"""What a task waits for, until when, and what its policy does then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import timestamps
from holdfast.model.task import Task, WaitingFor
from holdfast.resume.environment import LiveProcess
from holdfast.resume.verdict import Verdict, judge
from holdfast.runner.waiting import WaitPolicy, WaitStep, policy_of, step
from holdfast.settings import RunSettings, Settings
from tests.support.verdict_facts import but

NOW = 1_800_000_000.0
SLEEP = LiveProcess(12, "sleep 1000")
LEFT = but(tools=(SLEEP,))
OWNED = but(owners=(SLEEP,))


def task(waited_s: float | None = None, **options: object) -> Task:
    waiting_for = None
    if waited_s is not None:
        waiting_for = WaitingFor("leftovers", "x", timestamps.stamp(NOW - waited_s))
    return Task("t", "s", "go", "queued", timestamps.stamp(NOW), options=options, waiting_for=waiting_for)


def decided(found: Verdict, one: Task, leftovers: str = "wait", limit: float | None = None) -> WaitStep:
    assert found.action == "wait"
    return step(found, one, WaitPolicy(leftovers, 600.0, limit), NOW, ["told"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "waited_s", "leftovers", "limit", "do", "cause"),
    [
        (LEFT, None, "wait", None, "wait", "leftovers"),
        (LEFT, None, "end", None, "wait", "leftovers"),
        (LEFT, 599, "end", None, "wait", "leftovers"),
        (LEFT, 601, "end", None, "end", "leftovers"),
        (LEFT, 601, "ignore", None, "ignore", "leftovers"),
        (LEFT, 601, "wait", None, "wait", "person"),
        (OWNED, 601, "wait", None, "wait", "person"),
        (OWNED, 601, "end", None, "wait", "person"),  # nobody ends a person's own program
        (OWNED, 601, "ignore", None, "wait", "person"),
        (LEFT, 61, "end", 60.0, "cancel", "leftovers"),
        (OWNED, 61, "wait", 60.0, "cancel", "owner"),
        (LEFT, 59, "wait", 60.0, "wait", "leftovers"),
    ],
)
def test_the_policy_decides_when_the_time_is_over(
    facts: object, waited_s: float | None, leftovers: str, limit: float | None, do: str, cause: str
) -> None:
    found = decided(judge(facts), task(waited_s), leftovers, limit)  # type: ignore[arg-type]
    assert (found.do, found.waiting_for.cause) == (do, cause)


def test_the_text_names_the_processes_and_the_command_that_helps() -> None:
    text = decided(judge(LEFT), task()).waiting_for.text
    assert "sleep 1000 (12)" in text and "`holdfast cancel told` ends them" in text


def test_the_wait_goes_on_from_where_it_began() -> None:
    found = decided(judge(LEFT), task(100))
    assert timestamps.parse(found.waiting_for.since) == NOW - 100
    assert timestamps.parse(found.waiting_for.until or "") == NOW + 500
    assert found.change().waiting_for == found.waiting_for


def test_a_task_may_have_a_policy_of_its_own() -> None:
    settings = Settings(run=RunSettings(leftovers="wait", leftovers_s=5, time_limit_s=7))
    assert policy_of(task(), settings) == WaitPolicy("wait", 5, 7)
    assert policy_of(task(leftovers="end", time_limit_s=3), settings) == WaitPolicy("end", 5, 3)


@given(st.booleans(), st.floats(0, 2000), st.sampled_from(["wait", "end", "ignore"]))
def test_a_program_that_somebody_has_open_is_never_ended_or_ignored(
    leftovers_too: bool, waited_s: float, leftovers: str
) -> None:
    facts = but(owners=(SLEEP,), tools=(LiveProcess(13, "make"),) if leftovers_too else ())
    assert decided(judge(facts), task(waited_s), leftovers).do == "wait"
