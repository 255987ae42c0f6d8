"""Kill workers, agents or both again and again while demo tasks run, and check every log against its spool.

`python -m tests.crash.run_campaign HOME TASKS SEED WHAT` with WHAT one of hub, agent, both; prints what
it saw as JSON, or fails.
"""

from __future__ import annotations

import collections
import json
import random
import signal
import sys

from holdfast.home import Home
from holdfast.model.event import Event
from holdfast.model.task import Task
from tests.crash import children, run_support
from tests.crash.run_support import REGISTRY
from tests.support import log_oracle as oracle


def main(path: str, count: int, seed: int, what: str) -> None:
    """The whole campaign."""
    rng = random.Random(seed)
    home = run_support.made(path)
    prompts = [run_support.any_script(rng) for _ in range(count)]
    run_support.queue(home, prompts)
    seen: collections.Counter[str] = collections.Counter()
    disturb(home, rng, what, seen)
    run_support.undisturbed(home)
    peaceful = run_support.made(path + "-peaceful")
    run_support.queue(peaceful, prompts)
    run_support.undisturbed(peaceful)
    for task, same in zip(run_support.tasks(home), run_support.tasks(peaceful), strict=True):
        told = check(home, task, run_support.log(home, task.session), what, seen)
        if task.status == "succeeded":
            expected = oracle.logged(run_support.log(peaceful, same.session), same.id)
            assert gist(told) == gist(expected), (task.prompt, told, expected)
    print(json.dumps(seen))


def disturb(home: Home, rng: random.Random, what: str, seen: collections.Counter[str]) -> None:
    """Kill until all has ended, or enough was killed."""
    limit = 30 if what == "hub" else 12
    while not run_support.all_ended(home) and seen["kills"] < limit:
        child = run_support.worker(home)
        if rng.random() < 0.8:
            child.wait_for_word()
        children.pause(rng.uniform(0.0, 0.2))
        if rng.random() < 0.3:
            run_support.answer_all(home)
            children.pause(rng.uniform(0.0, 0.1))
        if what == "hub":
            child.kill()
        else:
            hurt(home, rng, seen)
            if what == "both":
                child.kill()
            else:
                children.pause(rng.uniform(0.1, 0.4))
                child.kill()
        seen["kills"] += 1


def hurt(home: Home, rng: random.Random, seen: collections.Counter[str]) -> None:
    """End some agents that run."""
    for task in run_support.tasks(home):
        if task.status == "running" and rng.random() < 0.3:
            pid = run_support.agent_pid(home, task.id)
            if pid is not None:
                run_support.kill(pid, rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
                seen["agents"] += 1


def gist(told: list[oracle.Told]) -> list[str]:
    """What must be the same in every run of a script; tools that run at once end in any order."""
    shown = ("text", "name", "input", "outcome", "output", "code", "answer")
    return sorted(json.dumps([kind, *[body.get(name) for name in shown]]) for kind, body in told)


def check(
    home: Home, task: Task, events: list[Event], what: str, seen: collections.Counter[str]
) -> list[oracle.Told]:
    """What must hold of a task however often it was disturbed."""
    seen[task.status] += 1
    told = oracle.logged(events, task.id)
    spooled = oracle.spooled(home, task.id, REGISTRY, events)
    shown = {"task": task.id, "status": task.status, "reason": task.reason, "spool": spooled, "log": told}
    context = json.dumps(shown)
    assert told == spooled, context
    assert [kind for kind, _ in told].count("user") == (task.delivery == "accepted"), context
    begun = [body["call"] for kind, body in told if kind == "tool_progress"]
    ended = [body["call"] for kind, body in told if kind == "tool_summary"]
    assert len(set(begun)) == len(begun) and sorted(begun) == sorted(ended), context
    answers = [(e.body["ask"]) for e in events if e.kind == "permission" and e.body["by"] == "person"]
    assert len(set(answers)) == len(answers), context
    ends = [e.body for e in events if e.task == task.id and e.kind == "tool_summary"]
    cut = [body for body in ends if body["outcome"] == "interrupted"]
    if what == "hub":
        assert task.status == "succeeded", context
    given_up = task.status == "failed" and "before it took the prompt" in str(task.reason)
    assert task.status in ("succeeded", "interrupted") or given_up, context
    if task.status == "succeeded":
        assert not cut and told[-1] == ("assistant", {"text": "the end"}), context
    seen["events"] += len(told)
    seen["cut"] += len(cut)
    return told


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
