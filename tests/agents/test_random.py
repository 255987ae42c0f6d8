"""Kills at random moments: 0 events lost, 0 doubled, the right status.

10 rounds an agent by default; HOLDFAST_ROUNDS or HOLDFAST_TORTURE sets another number.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from typing import Any

from psutil import Process

from tests.agents import scripts
from tests.agents.events import Event, Json, expected, gist
from tests.agents.holdfast import kill
from tests.agents.lab import Lab, References, Running
from tests.agents.told import logged, told

ROUNDS = int(os.environ.get("HOLDFAST_ROUNDS") or os.environ.get("HOLDFAST_TORTURE") or 10)
SEED = int(os.environ.get("HOLDFAST_SEED") or random.randrange(1 << 30))
VICTIMS = ("holdfast", "agent", "both")
STEPS = scripts.EVERYTHING


def test_kills_at_random_moments(lab: Lab, references: References) -> None:
    undisturbed = references.log(lab.label, STEPS)
    whole = _time_of_one(lab)
    dice = random.Random(f"{SEED} {lab.label}")
    problems = []
    tally: Counter[tuple[str, str]] = Counter()
    for number in range(ROUNDS):
        victim, moment = dice.choice(VICTIMS), dice.uniform(0, whole)
        running = lab.run(STEPS)
        _strike(running, victim, moment)
        lab.holdfast.settle()
        ended = running.task.ended()
        tally[victim, ended["status"]] += 1
        if problem := _problem(running, ended, victim, undisturbed):
            problems.append(
                f"round {number}, {victim} at {moment:.2f} of {whole:.2f} s, {running.task.id}: {problem}"
            )
    print(f"{lab.label}, HOLDFAST_SEED={SEED}: {dict(tally)}")
    assert problems == [], f"HOLDFAST_SEED={SEED}:\n" + "\n".join(problems)


def _time_of_one(lab: Lab) -> float:
    begun = time.monotonic()
    lab.run(STEPS).task.ended_as("succeeded")
    return time.monotonic() - begun


def _strike(running: Running, victim: str, moment: float) -> None:
    """SIGKILL so long after the beginning."""
    task = running.task
    agent = task.agent() if victim != "holdfast" else None
    ours = [task.worker(), Process(task.terminal.pid)] if victim != "agent" else []
    time.sleep(max(0.0, running.begun + moment - time.time()))
    kill(agent, *ours)
    if victim != "agent":
        task.terminal.wait()


def _problem(running: Running, ended: dict[str, Any], victim: str, undisturbed: list[Event]) -> str | None:
    status = ended["status"]
    log = running.task.log()
    if told(running.lab.agent.name, running.task.spool("stdout")) != logged(log):
        return f"{status}: the log has {logged(log)}, stdout told otherwise"
    if [kind for kind, _ in gist(log)].count("user") != 1:
        return f"{status}: the prompt is there {[kind for kind, _ in gist(log)].count('user')} times"
    if doubled := Counter(_whole(log)) - Counter(_whole_of(running)):
        return f"{status}: more often than it happened: {dict(doubled)}"
    live = [event for event in log if not event["replayed"]]
    plain = [event for event in running.as_compared(live) if '"code": "given_back"' not in event.body]
    if status == "succeeded":
        return None if plain == undisturbed else f"the log of a success differs: {plain}"
    if status != "interrupted" or victim == "holdfast":
        return f"{status}: {ended['reason']}"
    return _problem_of_a_part(plain, undisturbed)


def _whole(log: list[Json]) -> list[tuple[str, str]]:
    """What was said and begun, live or as the agent's store told it."""
    whole = [event for event in log if not event["body"].get("cut")]
    return [said for said in gist(whole) if said[0] != "tool_summary"]


def _whole_of(running: Running) -> list[tuple[str, str]]:
    return [said for said in expected(running.said, STEPS) if said[0] != "tool_summary"]


def _problem_of_a_part(plain: list[Event], undisturbed: list[Event]) -> str | None:
    """An interrupted run is the beginning of a whole one, then how it was cut off."""
    same = 0
    while same < min(len(plain), len(undisturbed)) and plain[same] == undisturbed[same]:
        same += 1
    for event in plain[same:]:
        cut = event.kind == "assistant" and len(undisturbed) > same
        cut = cut and json.loads(undisturbed[same].body)["text"].startswith(json.loads(event.body)["text"])
        marked = event.kind == "tool_summary" and '"outcome": "interrupted"' in event.body
        if not (cut or marked or '"code": "survivors"' in event.body):
            return f"after {same} of {len(undisturbed)} events there is {event}"
    return None
