"""What was not shown to be a resume is never told as one, and costs no token.

| | an id that it does not know | an id that it replaces in silence | dies while loading |
|---|---|---|---|
| Claude Code | exits | no such id: it refuses | seen |
| Codex | exits | a name that is no UUID: seen here; Holdfast itself passes UUIDs only | seen |
| Gemini CLI | an error over ACP | not known | test_resume_gemini.py |
| OpenCode | an error over ACP | not known | seen |
| Kimi Code | an error over ACP | not known; the archived kimi-cli did | seen |

An agent that begins another conversation over ACP is played in tests/contract/test_run_agents.py.
"""

from __future__ import annotations

import shutil
from typing import Any, cast

import pytest

from tests.agents import damage, scripts
from tests.agents.agent import LABELS
from tests.agents.between import Between
from tests.agents.fake_model.server import FakeModel
from tests.agents.holdfast import Task
from tests.agents.lab import Lab, laboratory
from tests.agents.thread import dispatch, history, tokens, transcript, verdict


def codes(lab: Lab, session: str, task: Task) -> list[str]:
    """Of the notices of a task."""
    return [
        event["body"]["code"]
        for event in lab.holdfast.log(session)
        if event["kind"] == "notice" and event["task"] == task.id
    ]


def forget(lab: Lab, path: str, token: str) -> None:
    """Take away all that the agent has of a conversation; Kimi Code keeps more than one file of it."""
    if lab.agent.name == "kimi":
        shutil.rmtree(path[: path.index(token) + len(token)])
    else:
        damage.deleted(path)


def test_an_id_that_the_agent_does_not_know(lab: Lab) -> None:
    _, first = dispatch(lab, scripts.ANSWER)
    before = first.ended_as("succeeded")
    session, token = before["session"], before["outcome"]["native_id"]
    forget(lab, transcript(lab, before), token)
    words, again = dispatch(lab, scripts.ANSWER, "resume", session, "--anyway")
    ended = again.ended()
    assert ended["status"] == "failed" and not (ended["outcome"] or {}).get("resumed"), ended
    said = codes(lab, session, again)
    assert "resume_attempt" in said and "resumed" not in said, said
    assert not lab.model.journal.scripted(words), "the model was never asked"
    assert tokens(lab, session) == [token]


@pytest.mark.parametrize("label", [label for label in LABELS if label != "gemini"])
def test_an_agent_that_dies_while_loading(label: str, model: FakeModel) -> None:
    with laboratory(label, model) as lab:
        between = Between(lab, "dies")
        first_words, first = dispatch(lab, scripts.ANSWER)
        before = first.ended_as("succeeded")
        session, token = before["session"], before["outcome"]["native_id"]
        between.turn_on()
        words, again = dispatch(lab, scripts.ANSWER)
        moved = again.ended_as("cancelled")["outcome"]["moved_to"]  # the same failure twice is enough
        assert between.times() == 2 and "resumed" not in codes(lab, session, again)
        after = Task(lab.holdfast, moved["task"], cast(Any, None)).ended_as("succeeded")
        assert after["session"] != session and after["outcome"]["native_id"] != token
        (shown,) = history(lab, words)
        assert first_words not in shown
        assert tokens(lab, session) == [token]


def test_a_name_that_codex_takes_for_a_new_conversation(model: FakeModel) -> None:
    with laboratory("codex", model) as lab:
        between = Between(lab, "renames")
        first_words, first = dispatch(lab, scripts.ANSWER)
        before = first.ended_as("succeeded")
        session, token = before["session"], before["outcome"]["native_id"]
        between.turn_on()
        words, again = dispatch(lab, scripts.ANSWER)
        ended = again.ended()
        assert ended["session"] == session and not ended["outcome"].get("resumed"), ended
        said = codes(lab, session, again)
        assert between.times() == 1 and "other_conversation" in said and "resumed" not in said, said
        assert all(first_words not in shown for shown in history(lab, words)), "it remembers nothing"
        assert tokens(lab, session) == [token]
        action, reasons = verdict(lab)
        assert action == "fresh" and "prompt_not_in_history" in reasons, reasons
