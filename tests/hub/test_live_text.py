"""What Claude Code says is heard before it is whole: from the start, from the middle, and after a crash."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.home import Home
from tests.hub import recorded_claude
from tests.hub.asking import Listening, ask, get
from tests.hub.running_hub import RunningHub, running

RECORDING = Path(__file__).parents[1] / "fixtures" / "streams" / "claude-2.1.325" / "live_text.txt"
HALF = "It is done 😀, word0 word1 word2 word3 word"
WHOLE = HALF + "4 word5 word6 word7 end."


class Speaker:
    """A hub whose Claude Code stops in the middle of its last sentence."""

    def __init__(self, hub: RunningHub, gate: str):
        self.hub = hub
        self._gate = gate

    def begin(self) -> dict[str, str]:
        """Give it a prompt; {"task", "session"}."""
        wish = {"prompt": "say it", "agent": "claude", "cwd": self.hub.terminal.cwd, "permissions": "allow"}
        answer = ask(self.hub, "POST", "/api/dispatch", wish)
        assert answer.status == 201, answer
        found: dict[str, str] = answer.json
        return found

    def go_on(self) -> None:
        """Let it end its sentence."""
        with open(self._gate, "w"):
            pass

    def end(self, task: str, status: str = "succeeded") -> None:
        """Until its task has ended so."""
        self.hub.terminal.until(lambda: get(self.hub, f"/api/tasks/{task}")["status"] == status)

    def said(self, session: str) -> list[tuple[str, str]]:
        """What it has said, as the log has it."""
        events = get(self.hub, f"/api/sessions/{session}/events")["events"]
        return [(e["kind"], e["body"]["text"]) for e in events if e["kind"] in ("assistant", "thinking")]


@pytest.fixture
def speaker(home: Home, tmp_path: Path) -> Iterator[Speaker]:
    gate = str(tmp_path / "gate")
    command = json.dumps([sys.executable, recorded_claude.__file__, str(RECORDING), "3 word", gate])
    with running(home, str(tmp_path / "work"), f"[agents.claude]\ncommand = {command}\n") as hub:
        yield Speaker(hub, gate)


def _half(reading: Listening) -> dict[str, Any]:
    """The first that is told of the sentence as far as it came."""
    while not (data := json.loads(reading.event("partial")["data"]))["text"].startswith(HALF):
        assert HALF.startswith(data["text"]) or data["kind"] == "thinking" or "First" in data["text"]
    found: dict[str, Any] = data
    return found


def test_it_is_heard_as_it_is_said_and_in_the_log_once(speaker: Speaker) -> None:
    listening = Listening(speaker.hub, "/api/stream")
    made = speaker.begin()
    half = _half(listening)
    assert half == {**made, "kind": "assistant", "text": half["text"]}
    assert WHOLE not in [text for _, text in speaker.said(made["session"])]
    for path in ("/api/stream", f"/api/sessions/{made['session']}/stream"):
        joining = Listening(speaker.hub, path)
        assert json.loads(joining.event("partial")["data"]) == half, "at once: nothing is said meanwhile"
        joining.close()
    speaker.go_on()
    while (event := json.loads(listening.event()["data"])["event"])["kind"] != "assistant" or event["body"][
        "text"
    ] != WHOLE:
        pass
    listening.close()
    speaker.end(made["task"])
    assert speaker.said(made["session"]) == [
        ("thinking", "let me see, this is a thought"),
        ("assistant", "First a file, which I tell of."),
        ("assistant", WHOLE),
    ]


def test_a_new_hub_tells_what_the_old_one_had_heard(speaker: Speaker) -> None:
    listening = Listening(speaker.hub, "/api/stream")
    made = speaker.begin()
    half = _half(listening)
    speaker.hub.kill()
    listening.close()
    speaker.hub.start()
    for path in ("/api/stream", f"/api/sessions/{made['session']}/stream"):
        joining = Listening(speaker.hub, path)
        assert _half(joining) == half
        joining.close()
    speaker.go_on()
    speaker.end(made["task"])
    assert [text for kind, text in speaker.said(made["session"]) if kind == "assistant"] == [
        "First a file, which I tell of.",
        WHOLE,
    ]


def test_what_it_died_in_is_in_the_log_and_told_no_more(speaker: Speaker) -> None:
    listening = Listening(speaker.hub, "/api/stream")
    made = speaker.begin()
    half = _half(listening)
    with open(os.path.join(speaker.hub.terminal.home.task(made["task"]), "agent")) as file:
        os.kill(int(file.read().split()[0]), 9)
    while (event := json.loads(listening.event()["data"])["event"])["body"].get("text") != half["text"]:
        pass
    assert event["kind"] == "assistant" and event["body"]["cut"] is True
    listening.close()
    speaker.end(made["task"], "interrupted")
    joining = Listening(speaker.hub, f"/api/sessions/{made['session']}/stream")
    names = []
    while (frame := joining.frame()).get("") != "beat":  # after which it would have come
        names.append(frame.get("event"))
    joining.close()
    assert "partial" not in names
