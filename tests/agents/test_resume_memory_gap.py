"""Killed just after a tool has written a file: the agent may not remember it, and is not gone on with.

| | what its history has of a tool that ended some 10 ms ago |
|---|---|
| Claude Code | nothing yet: it writes every 100 ms |
| Codex, OpenCode, Kimi Code | the call, which they write first, and mostly its result |
| Gemini CLI | nothing of a call before its end is told |
"""

from __future__ import annotations

import json
import time

import pytest

from tests.agents.agent import LABELS
from tests.agents.fake_model.script import Step
from tests.agents.fake_model.server import FakeModel
from tests.agents.holdfast import Task
from tests.agents.lab import Lab, laboratory
from tests.agents.thread import dispatch, history, settled, tokens

WRITES = (
    Step(say="I write it.", shell="echo gone-on > written"),
    Step(text="It is written.", hang=120),
)
FORGETS = {"effect_not_in_history", "result_not_in_history", "prompt_not_in_history"}
CASES = [
    *[(label, delay) for label in LABELS if label.startswith("claude") for delay in (0.01, 0.07)],
    *[(label, delay) for label, delay in zip(LABELS[2:], (0.01, 0.03, 0.05, 0.07), strict=True)],
]


def forgets(lab: Lab, task: Task, native_id: str) -> bool:
    """Whether the stream showed a call that the agent's own history, as far as there is one, has not."""
    told = [event for event in task.log() if event["kind"] == "tool_progress" and not event["replayed"]]
    try:
        kept = lab.holdfast.call("history", lab.agent.name, native_id, "--json")
    except AssertionError:  # there is none at all
        return False
    kinds = [json.loads(line)["kind"] for line in kept.splitlines()]
    return bool(told) and "tool_progress" not in kinds


@pytest.mark.parametrize(("label", "delay"), CASES)
def test_killed_after_a_write(label: str, delay: float, model: FakeModel) -> None:
    with laboratory(label, model) as lab:
        words, cut = dispatch(lab, WRITES)
        agent = cut.agent()
        assert agent is not None
        lab.wait_for_file("written")
        time.sleep(delay)  # the very case: not a moment that is waited for
        agent.kill()
        old = cut.ended_as("interrupted")
        token = old["outcome"]["native_id"]
        action, codes = settled(lab)
        assert action == "fresh" and "last_interrupted" in codes, (action, codes)
        if forgets(lab, cut, token):
            assert FORGETS & {*codes}, codes
        again, fresh = dispatch(lab, (Step(text="I look first."),))
        new = fresh.ended_as("succeeded")
        assert new["outcome"]["native_id"] != token and tokens(lab, old["session"]) == [token]
        (shown,) = history(lab, again)
        assert words in shown and "echo gone-on > written" in shown, "it is told what it may have done"
