"""A history that was cut off, deleted, torn or written to by two is not gone on with, and it is said why.

Which codes an accident may show by is one list: cut off, a history is shorter than our copy of it, and where
the rows of a database are copied only the pages are missed; deleted, it is found nowhere.

What two writers at once leave behind:

| | |
|---|---|
| Claude Code | a history that parts in two: each goes on from the record that it found last |
| Codex | cannot come about: the second writer is refused by the thread's lock |
| Gemini CLI | resets of the message list by one in the midst of the other's records |
| Kimi Code, OpenCode | one row of records, in which prompts have no answer |
"""

from __future__ import annotations

import os

from tests.agents import damage, outside, scripts
from tests.agents.fake_model.script import Step
from tests.agents.lab import Lab
from tests.agents.outside import Outside
from tests.agents.thread import dispatch, history, settled, tokens, transcript, verdict
from tests.agents.waiting import until

SLOW_MODEL = (Step(text="I was slow.", hang=120),)
ACCIDENTS = {
    damage.truncated: {"shrunk", "store_damaged"},
    damage.torn: {"bad_line"},
    damage.deleted: {"no_transcript", "missing_store", "missing"},
}
UNFINISHED = {"no_reply", "turn_unfinished", "dangling_call"}
TWO_WRITERS = {
    "claude": {"forked_history"},
    "codex": UNFINISHED,
    "gemini": {"history_wiped", "multiple_files", *UNFINISHED},
    "opencode": UNFINISHED,
    "kimi": {"forked_history", *UNFINISHED},
}


def test_accidents(lab: Lab) -> None:
    first_words, first = dispatch(lab, scripts.TWO_TOOLS)
    before = first.ended_as("succeeded")
    token = before["outcome"]["native_id"]
    path = transcript(lab, before)
    for accident, expected in ACCIDENTS.items():
        with damage.undone(path):
            accident(path)
            action, codes = verdict(lab)
            assert action == "fresh" and expected & {*codes}, (accident.__name__, action, codes)
    damage.deleted(path)
    words, second = dispatch(lab, scripts.ANSWER)
    after = second.ended_as("succeeded")
    assert after["session"] != before["session"] and after["outcome"]["native_id"] != token
    (shown,) = history(lab, words)
    assert first_words not in shown, "what is not an interruption needs no brief"
    assert tokens(lab, before["session"]) == [token]


def test_two_writers(lab: Lab) -> None:
    _, first = dispatch(lab, scripts.ANSWER)
    before = first.ended_as("succeeded")
    token = before["outcome"]["native_id"]
    path = transcript(lab, before)
    if lab.agent.name == "claude":
        apart(lab, path, token)
    else:
        at_once(lab, path, token)
    action, codes = settled(lab)
    assert action == "fresh" and TWO_WRITERS[lab.agent.name] & {*codes}, (action, codes)
    assert tokens(lab, before["session"]) == [token]


def at_once(lab: Lab, path: str, token: str) -> None:
    """Two that wait for their models at the same time; only Codex lets no second one in."""
    one = outside.go_on(lab, token, SLOW_MODEL)
    stored(lab, path, one)
    other = outside.go_on(lab, token, SLOW_MODEL)
    if lab.agent.name == "codex":
        until(lambda: other.process.poll() is not None, "the second is refused")
        assert other.process.returncode != 0 and not lab.model.journal.scripted(other.words)
    else:
        stored(lab, path, other)
        other.die()
    one.die()


def apart(lab: Lab, path: str, token: str) -> None:
    """Two that found the same history, and wrote one after the other."""
    with open(path, "rb") as file:
        found = file.read()
    with damage.undone(path):
        one = outside.go_on(lab, token, SLOW_MODEL)
        stored(lab, path, one)
        one.die()
        with open(path, "rb") as file:
            written = file.read()[len(found) :]
    other = outside.go_on(lab, token, SLOW_MODEL)
    stored(lab, path, other)
    other.die()
    with open(path, "ab") as file:
        file.write(written[: written.rfind(b"\n") + 1])


def stored(lab: Lab, path: str, writer: Outside) -> None:
    """Until its model is asked, and its prompt is on the disk."""
    folder = os.path.dirname(path)

    def look() -> bool:
        assert writer.process.poll() is None
        paths = [os.path.join(folder, name) for name in os.listdir(folder)]
        return any(writer.words.encode() in _read(path) for path in paths)

    until(lambda: lab.model.journal.scripted(writer.words), "the model is asked")
    until(look, "the prompt is in the history")


def _read(path: str) -> bytes:
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read()
