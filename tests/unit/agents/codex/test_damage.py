"""Damaged rollouts: never an exception, and what is whole is still told."""

from __future__ import annotations

import io
import json
import os
from typing import Any

import pytest
from hypothesis import given, settings

from holdfast.agents.codex.events import CodexRollout
from holdfast.agents.codex.inspect import find_problems
from holdfast.agents.codex.records import STARTS
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import encode
from holdfast.transcripts import jsonl
from tests.support.transcript_cases import FIXTURES, check_storable
from tests.support.transcript_damage import damaged, wrong_types


def whole(case: str) -> bytes:
    """A recording without the long texts of its header, which nothing here looks at."""
    folder = os.path.join(FIXTURES, "codex", case)
    (name,) = [name for name in os.listdir(folder) if name.startswith("rollout")]
    lines = []
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            if record["type"] in ("session_meta", "world_state"):
                record["payload"] = {"id": "x", "cwd": "/"}
            if record["payload"].get("role") != "developer":
                lines.append(json.dumps(record).encode() + b"\n")
    return b"".join(lines)


CLEAN = whole("clean_then_crashed_then_resumed")
SHORT = whole("crash_midtool")


def fold(content: bytes) -> tuple[CodexRollout, list[NewEvent]]:
    found = CodexRollout("codex", "x")
    events: list[NewEvent] = []
    for line in jsonl.read(io.BytesIO(content), STARTS):
        events += found.on_line(line)
    events += found.end()
    for event in events:
        encode(event.body)
    for problem in find_problems(found.facts, "x"):
        encode(problem.evidence)
    return found, events


def said(events: list[NewEvent]) -> list[tuple[str, Any]]:
    return [(e.kind, e.body["text"]) for e in events if e.kind in ("user", "assistant")]


def test_cut_at_every_byte() -> None:
    every = said(fold(SHORT)[1])
    assert len(every) == 2
    most = 0
    for end in range(0, len(SHORT), 3):
        found, events = fold(SHORT[:end])
        told = said(events)
        assert told == every[: len(told)] and len(told) >= most
        most = len(told)
        problems = {problem.code for problem in find_problems(found.facts, "x")}
        assert problems, "a cut is never sound"
        last = SHORT[:end].rpartition(b"\n")[2]
        if last and not last.endswith(b"}"):
            assert "torn_tail" in problems
    assert most == 2


def test_wrong_types_in_every_field() -> None:
    lines = SHORT.splitlines(keepends=True)
    for number, content in enumerate(wrong_types(lines)):
        if number % 6 == 0:
            check_storable(fold(content)[1])


@settings(max_examples=100, deadline=None)
@given(damaged(CLEAN))
def test_accidents(content: bytes) -> None:
    check_storable([event for event in fold(content)[1] if event.kind != "notice"])


@pytest.mark.parametrize("number", range(len(CLEAN.splitlines())))
def test_one_bad_line_costs_only_itself(number: int) -> None:
    lines = CLEAN.splitlines(keepends=True)
    every = said(fold(CLEAN)[1])
    lines[number] = lines[number][:-30] + b"\n"
    found, events = fold(b"".join(lines))
    assert found.facts.counts["bad_line"] == 1
    told = said(events)
    assert len(every) - 1 <= len(told) and set(told) <= set(every)
