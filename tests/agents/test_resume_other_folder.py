"""A conversation of another folder is not loaded there: one agent would hang, another would not find it."""

from __future__ import annotations

import os

from tests.agents import outside, scripts
from tests.agents.fake_model.server import FakeModel
from tests.agents.lab import Lab, laboratory
from tests.agents.thread import dispatch, history, settled, tokens


def test_the_same_key_from_another_folder(lab: Lab) -> None:
    first_words, first = dispatch(lab, scripts.ANSWER)
    before = first.ended_as("succeeded")
    token = before["outcome"]["native_id"]
    other = lab.agent.cwd + "-2"
    os.makedirs(other)
    words, second = dispatch(lab, scripts.ANSWER, "run", "-a", lab.agent.name, "--key", "k", "--cwd", other)
    after = second.ended_as("succeeded")
    assert after["session"] != before["session"] and after["outcome"]["native_id"] != token
    (shown,) = history(lab, words)
    assert first_words not in shown
    log = lab.holdfast.log(after["session"])
    (why,) = [event["body"] for event in log if event["body"].get("code") == "not_resumed"]
    assert "other_folder" in [reason["code"] for reason in why["reasons"]] and why["token"] == token
    assert tokens(lab, before["session"]) == [token]


def test_a_conversation_that_codex_has_moved(model: FakeModel) -> None:
    with laboratory("codex", model) as lab:
        _, first = dispatch(lab, scripts.ANSWER)
        before = first.ended_as("succeeded")
        other = lab.agent.cwd + "-2"
        os.makedirs(other)
        outside.done(outside.go_on(lab, before["outcome"]["native_id"], scripts.ANSWER, cwd=other))
        action, codes = settled(lab)
        assert action == "fresh" and "other_folder" in codes, codes
