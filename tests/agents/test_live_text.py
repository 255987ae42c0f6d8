"""Text as it is being said: which agents show it, and what is left of it when Claude Code dies in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.home import Home
from tests.agents import scripts
from tests.agents.agent import LABELS
from tests.agents.fake_model.script import Step, prompt
from tests.agents.fake_model.server import FakeModel
from tests.agents.holdfast import Task, kill
from tests.agents.lab import Lab, laboratory
from tests.agents.thread import dispatch, history, settled
from tests.agents.waiting import until
from tests.hub.asking import Listening, ask
from tests.hub.running_hub import RunningHub
from tests.support.terminal import Terminal

CLAUDE = [label for label in LABELS if label.startswith("claude")]
SILENT = ("codex",)  # `codex exec --json` tells each message when it is whole
TEXT = " ".join(f"word{n}" for n in range(40)) + " end."
STEPS = (
    Step(say="A tool first.", shell="echo one > one.txt; echo out-one"),
    Step(text=TEXT, chunk=6, delay=0.05),
)


@contextmanager
def _hub(lab: Lab) -> Iterator[RunningHub]:
    terminal = Terminal(Home(lab.holdfast.home), lab.agent.cwd)
    terminal.env = lab.holdfast.env
    hub = RunningHub(terminal)
    try:
        hub.start()
        yield hub
    finally:
        hub.close()


def test_text_is_heard_before_it_is_whole(lab: Lab) -> None:
    with _hub(lab) as hub:
        listening = Listening(hub, "/api/stream")
        wish = {"prompt": prompt(lab.words(), STEPS), "agent": lab.agent.name, "cwd": lab.agent.cwd}
        made = ask(hub, "POST", "/api/dispatch", {**wish, "permissions": "allow"})
        assert made.status == 201, made
        heard: list[str] = []
        whole = ""
        while whole != TEXT:
            frame = listening.frame()
            data = json.loads(frame.get("data", "{}"))
            if frame.get("event") == "partial" and data["kind"] == "assistant":
                heard.append(data["text"])
            elif data.get("event", {}).get("kind") == "assistant":
                whole = data["event"]["body"]["text"]
        listening.close()
    of_it = [text for text in heard if text.startswith("word0")]
    if lab.agent.name in SILENT:
        assert heard == []
    else:
        assert len(set(of_it)) > 5 and of_it == sorted(of_it, key=len)
        assert all(TEXT.startswith(text) for text in of_it)


@pytest.mark.parametrize("label", CLAUDE)
def test_what_claude_died_in_is_told_and_confuses_nobody(label: str, model: FakeModel) -> None:
    """Its transcript has nothing of it: that is no gap in its memory, and the next run is told of it."""
    with laboratory(label, model) as lab:
        _, cut = dispatch(lab, scripts.SLOW_TEXT)
        until(lambda: _pieces(cut) > 15, "it is in the middle of its text")
        kill(cut.agent())
        cut.ended_as("interrupted")
        said = [event for event in cut.log() if event["kind"] == "assistant"]
        assert [event["body"].get("cut") for event in said] == [None, True]
        assert said[-1]["body"]["text"].startswith("word0 word1 word2")
        action, codes = settled(lab)
        assert (action, codes[0]) == ("fresh", "last_interrupted")
        assert not [code for code in codes if code.endswith("_not_in_history")]
        again, fresh = dispatch(lab, scripts.ANSWER)
        fresh.ended_as("succeeded")
        (asked,) = history(lab, again)
        assert "word0 word1 word2" in asked


def _pieces(task: Task) -> int:
    """How many of its text have come behind its tool."""
    return task.spool("stdout").partition(b'"tool_result"')[2].count(b'"text_delta"')
