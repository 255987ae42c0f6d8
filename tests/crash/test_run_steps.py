"""A worker dies before or after every single thing that it does; two at once go on with its task."""

from __future__ import annotations

import json
import os
import time
from typing import NamedTuple

import pytest

from holdfast.agents.demo import PROGRAM
from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import Event
from holdfast.model.task import ENDED, Task
from holdfast.runner import control
from holdfast.store.store import Store
from tests.crash import children, run_steps, run_support
from tests.crash.run_campaign import gist
from tests.crash.support import TORTURE, scratch
from tests.support import log_oracle as oracle

AT_ONCE = 6
DEADLINE_S = 120.0

PROMPT = run_support.script(
    {"say": "words", "chunk": 2},
    {"tool": "shell", "run": "echo one"},
    {"tool": "shell", "run": "echo asked", "ask": True},
    {"say": "the end"},
)
# Says a word that is not JSON, and the first time it is gone before it has taken anything.
WRAPPER = """#!/bin/sh
echo hello
echo x >>"$0.count"
if [ $(wc -l <"$0.count") -lt 2 ]; then sleep 0.2; kill -9 $$; fi
exec "$@"
"""


class Case(NamedTuple):
    """One home and one task, killed at one step."""

    home: Home
    step: int
    task: str


def made(folder: str, what: str, step: int) -> Case:
    home = run_support.made(os.path.join(folder, f"{what}-{step}".replace(" ", "-")))
    agent = "demo"
    if what == "chosen id":
        agent = "claude"
        with open(home.config, "a") as file:
            file.write("[agents.claude]\npath = '/bin/false'\n")
    if what == "given back":
        agent = "mine"
        wrapper = os.path.join(home.path, "wrapper")
        with open(wrapper, "w") as file:
            file.write(WRAPPER)
        os.chmod(wrapper, 0o700)
        source = os.path.join(os.path.dirname(__file__), "..", "..", "src")
        words = f"command = {json.dumps([wrapper, *PROGRAM])}\nkeeps = ['HOLDFAST_DEMO_HOME']\n"
        with open(home.config, "a") as file:
            file.write(f"[agents.mine]\n{words}env = {{ PYTHONPATH = {json.dumps(source)} }}\n")

    async def enqueue(store: Store) -> str:
        session = await store.create_session(agent, cwd=home.path)
        task = await store.enqueue(session.id, PROMPT)
        return task.id

    return Case(home, step, run_support.with_store(home, enqueue))


def driven(cases: list[Case]) -> list[bool]:
    """Kill each at its step, then let two workers at once end it; which of them came to their step."""
    dying = [run_steps.dying(case.home, case.step) for case in cases]
    _answered(cases, lambda: all(_is_gone(child) for child in dying))
    struck = [child.rest() != b"done\n" for child in dying]
    next_ones = [run_support.worker(case.home) for case in cases for _ in range(2)]
    _answered(cases, lambda: all(_task(case).status in ENDED for case in cases))
    for child in next_ones:
        child.rest()
    return struck


def _answered(cases: list[Case], over: object) -> None:
    assert callable(over)
    deadline = time.monotonic() + DEADLINE_S
    while not over():
        assert time.monotonic() < deadline, [(case.step, _task(case)) for case in cases]
        for case in cases:
            if "cancelled" in case.home.path:
                run_support.with_store(case.home, _cancel)
            else:
                run_support.answer_all(case.home)


async def _cancel(store: Store) -> None:
    """As soon as it runs, once."""
    for task in await store.tasks(status="running"):
        if not control.requests(await store.task_events(task.id, ("notice",))).cancels:
            await store.commit(Commit(task.session, [control.cancel_event("ann")], task=task.id))


def _is_gone(child: children.Child) -> bool:
    found = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return found is not None


def _task(case: Case) -> Task:
    return run_support.tasks(case.home)[0]


def prompts_taken(home: Home) -> int:
    """How often any agent took the prompt, as the agent's own store tells."""
    folder = os.path.join(home.path, "demo")
    taken = 0
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        with open(os.path.join(folder, name)) as file:
            taken += sum(json.loads(line)["type"] == "prompt" for line in file)
    return taken


def notices(events: list[Event]) -> list[str]:
    return [event.body["code"] for event in events if event.kind == "notice"]


def check(case: Case, what: str, peaceful: list[oracle.Told]) -> None:
    task = _task(case)
    events = run_support.log(case.home, task.session)
    shown = json.dumps([case.step, task.status, task.reason, [[e.kind, e.body] for e in events]])
    told = oracle.logged(events, task.id)
    claims = [event.body for event in events if event.kind == "task" and event.body["op"] == "claim"]
    begun = 2 if what == "given back" else 1
    assert len(claims) <= 1 + begun, f"two drove it: {shown}"
    if what == "chosen id":
        assert task.status == "failed" and len([e for e in events if e.kind == "token"]) == 1, shown
        return
    if what == "cancelled":
        assert task.status == "cancelled", shown
        assert prompts_taken(case.home) <= 1, shown
        return
    assert task.status == "succeeded", shown
    assert prompts_taken(case.home) == 1, shown
    assert gist(told) == gist(peaceful), shown
    assert notices(events).count("given_back") == begun - 1, shown
    assert len([e for e in events if e.kind == "token"]) == 1, shown
    if what == "given back":
        told = told[1:]  # the word of the first process, whose spool is put away
    registry = AgentRegistry.from_config({"mine": {"command": ["x"]}})
    assert told == oracle.spooled(case.home, task.id, registry, events), shown


@pytest.mark.parametrize("what", ["plain", "given back", "cancelled", "chosen id"])
def test_dead_at_any_step(what: str) -> None:
    """For every step until there is none left."""
    with scratch() as folder:
        calm = made(folder, what, 0)
        driven([calm])
        told = oracle.logged(run_support.log(calm.home, _task(calm).session), calm.task)
        check(calm, what, told)
        step, more = 1, True
        while more:
            cases = [made(folder, what, n) for n in range(step, step + AT_ONCE * stride(), stride())]
            more = all(driven(cases))
            for case in cases:
                check(case, what, told)
            step += AT_ONCE * stride()
        assert step > 12


def stride() -> int:
    """Every step in a long test; in a quick one every third, before and after in turn."""
    return 1 if TORTURE else 3
