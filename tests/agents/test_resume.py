"""Verdicts on real agents: what the model was sent tells whether a conversation was gone on with."""

from __future__ import annotations

import pytest

from tests.agents import scripts
from tests.agents.agent import LABELS
from tests.agents.fake_model.server import FakeModel
from tests.agents.holdfast import kill
from tests.agents.lab import Lab, laboratory
from tests.agents.thread import dispatch, history, settled, tokens, verdict

FORKING = [label for label in LABELS if label.startswith(("claude", "opencode", "kimi"))]


def test_a_success_is_gone_on_with(lab: Lab) -> None:
    first_words, first = dispatch(lab, scripts.TWO_TOOLS)
    before = first.ended_as("succeeded")
    assert settled(lab) == ("resume", ["sound"])  # Gemini would destroy it within its first minute
    words, second = dispatch(lab, scripts.TWO_TOOLS)
    after = second.ended_as("succeeded")
    assert after["outcome"]["resumed"] is True
    assert after["outcome"]["native_id"] == before["outcome"]["native_id"]
    assert first_words in history(lab, words)[0]


def test_killed_mid_tool_with_holdfast(lab: Lab) -> None:
    words, cut = dispatch(lab, scripts.LONG_TOOL)
    lab.wait_for_file("started")
    kill(cut.agent(), cut.worker())
    lab.holdfast.settle()
    old = cut.ended_as("interrupted")
    action, codes = settled(lab)
    assert (action, codes[0]) == ("fresh", "last_interrupted")
    token = old["outcome"]["native_id"]
    again, fresh = dispatch(lab, scripts.ANSWER)
    new = fresh.ended_as("succeeded")
    assert new["session"] != old["session"] and new["outcome"]["native_id"] != token
    (asked,) = history(lab, again)
    assert "cut short" in asked and words in asked and "touch started" in asked
    assert tokens(lab, old["session"]) == [token]


@pytest.mark.parametrize("label", FORKING)
def test_a_copy_remembers_what_it_was_made_of(label: str, model: FakeModel) -> None:
    with laboratory(label, model) as lab:
        first_words, first = dispatch(lab, scripts.TWO_TOOLS)
        before = first.ended_as("succeeded")
        words, side = dispatch(lab, scripts.ANSWER, "resume", before["session"], "--fork")
        after = side.ended_as("succeeded")
        assert after["outcome"]["native_id"] != before["outcome"]["native_id"]
        shown = history(lab, words)
        assert first_words in shown[0] and words in shown[-1]
        assert verdict(lab) == ("resume", ["sound"]), "the one that was copied is as it was"
        assert verdict(lab, after["session"]) == ("resume", ["sound"])


@pytest.mark.parametrize("label", [label for label in FORKING if label.startswith("claude")])
def test_a_copy_of_what_came_before_the_cut(label: str, model: FakeModel) -> None:
    with laboratory(label, model) as lab:
        first_words, first = dispatch(lab, scripts.ANSWER)
        first.ended_as("succeeded")
        cut_words, cut = dispatch(lab, scripts.LONG_TOOL)
        lab.wait_for_file("started")
        cut.kill_agent()
        cut.ended_as("interrupted")
        assert settled(lab)[0] == "fresh"
        words, copy = dispatch(lab, scripts.ANSWER, "resume", "k", "--fork")
        copy.ended_as("succeeded")
        shown = history(lab, words)
        assert len(shown) == 2 and first_words in shown[0]
        assert "cut short" in shown[1] and cut_words in shown[1], "it is told of what it does not remember"
