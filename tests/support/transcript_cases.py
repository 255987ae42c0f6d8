"""Recorded sessions of agents and what is true about them, and how a reader's word is compared with it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from holdfast.model import event as events
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import encode
from holdfast.transcripts.reader import Inspection, TranscriptReader
from tests.support import paths

FIXTURES = os.path.join(paths.FIXTURES, "history")
MARKERS = ("notice", "error")


def cases(agent: str, file: str) -> list[str]:
    """The recorded cases of an agent that hold a session, whose file `expected.json` names so."""
    folder = os.path.join(FIXTURES, agent)
    return [name for name in sorted(os.listdir(folder)) if file in expected(agent, name)]


def expected(agent: str, case: str) -> dict[str, Any]:
    """What is true about a case."""
    path = os.path.join(FIXTURES, agent, case, "expected.json")
    with open(path, encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def plain(told: Iterable[NewEvent]) -> list[dict[str, Any]]:
    """Events in the words of `expected.json`, without markers and without ends that nobody told."""
    return [_plain(event) for event in told if event.kind not in MARKERS and not _is_ours(event)]


def check(reader: TranscriptReader, found: Inspection, told: list[NewEvent], truth: dict[str, Any]) -> None:
    """A reader's word on a case is what is true about it."""
    assert plain(told) == [ought(entry) for entry in truth["events"] if entry["k"] != "marker"]
    check_storable(told)
    judged = truth["holdfast"]
    assert [call["call"] for call in found.dangling] == truth["dangling"]
    assert ended_by_us(told) == truth["dangling"]
    assert judged["sound"] in (None, found.sound)
    assert found.turns == judged["turns"]
    complete = judged["complete_turns"]
    surely = max((number for number, is_complete in enumerate(complete, 1) if is_complete), default=None)
    maybe = {number for number, is_complete in enumerate(complete, 1) if is_complete is None}
    assert found.last_complete == surely or found.last_complete in maybe
    assert {reason.lower() for reason in truth["verdict"]["reasons"]} <= {p.code for p in found.problems}
    if found.sound and not truth["verdict"]["reasons"]:
        assert found.problems == []


def ended_by_us(told: Iterable[NewEvent]) -> list[str]:
    """The calls whose end the reader had to say itself."""
    return [event.body["call"] for event in told if _is_ours(event)]


def check_storable(told: Iterable[NewEvent], *, doubled: bool = False) -> None:
    """Every event can be appended to a log, and no two have one origin unless lines were doubled."""
    origins = []
    for event in told:
        events.check(event)
        encode(event.body)
        if event.origin is not None:
            origins.append(event.origin.record_id)
            encode(event.origin)
            assert "\0" not in event.origin.record_id
    assert doubled or len(set(origins)) == len(origins)


def ought(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of `expected.json` as it is compared."""
    if entry["k"] == "tool_result":
        return {"k": "tool_result", "id": entry["id"], "ok": entry["ok"], "text": entry["text"][:300]}
    return entry


def _plain(event: NewEvent) -> dict[str, Any]:
    body = event.body
    if event.kind == "tool_progress":
        return {"k": "tool_call", "id": body["call"], "name": body["name"], "input": body["input"]}
    if event.kind == "tool_summary":
        is_ok = body["outcome"] == "ok"
        return {"k": "tool_result", "id": body["call"], "ok": is_ok, "text": body["output"][:300]}
    return {"k": event.kind, "text": body["text"]}


def _is_ours(event: NewEvent) -> bool:
    return event.kind == "tool_summary" and event.origin is None
