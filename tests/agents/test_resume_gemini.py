"""The loads by which Gemini CLI 0.61 destroys a history, with its own settings, are not made."""

from __future__ import annotations

import json
import os

from tests.agents import scripts
from tests.agents.between import Between
from tests.agents.fake_model.server import FakeModel
from tests.agents.lab import Lab, laboratory
from tests.agents.thread import dispatch, history, tokens, transcript
from tests.agents.waiting import until


def deletes(lab: Lab) -> None:
    """As its default is: files that look broken to it are deleted at its next start."""
    path = os.path.join(lab.agent.home, ".gemini", "settings.json")
    with open(path) as file:
        settings = json.load(file)
    del settings["general"]["sessionRetention"]
    with open(path, "w") as file:
        json.dump(settings, file)


def kept(lab: Lab, token: str, words: str) -> bool:
    """Whether one of our copies of that conversation has these words."""
    for folder, _, names in os.walk(os.path.join(lab.holdfast.home, "native")):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                if token in folder and words.encode() in file.read():
                    return True
    return False


def test_within_its_minute_and_twice_without_a_prompt(model: FakeModel) -> None:
    with laboratory("gemini", model) as lab:
        deletes(lab)
        between = Between(lab, "hesitates")
        first_words, first = dispatch(lab, scripts.ANSWER)
        before = first.ended_as("succeeded")
        session, token = before["session"], before["outcome"]["native_id"]
        name = os.path.basename(transcript(lab, before))
        assert kept(lab, token, first_words)
        between.turn_on()
        words, _ = dispatch(lab, scripts.ANSWER)  # at once; no prompt follows on the load

        until(lambda: answered(lab, words), "it is answered in another session", 180, every_s=0.5)
        log = lab.holdfast.log(session)
        attempts = [event["at"] for event in log if event["body"].get("code") == "resume_attempt"]
        assert attempts and attempts[0][:16] > minute(name), "not within the minute of its file"
        assert between.times() == 1, "and never a second time"
        (shown,) = history(lab, words)
        assert first_words not in shown
        assert tokens(lab, session) == [token] and kept(lab, token, first_words)


def answered(lab: Lab, words: str) -> bool:
    """Whether a task with these words has succeeded."""
    return any(words in task["prompt"] and task["status"] == "succeeded" for task in lab.holdfast.tasks())


def minute(name: str) -> str:
    """The minute of a file, as a time has it: session-2026-01-31T10-15-0123abcd.jsonl."""
    day, clock = name.removeprefix("session-")[:16].split("T")
    return f"{day}T{clock.replace('-', ':')}"
