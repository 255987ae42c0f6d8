"""Damaged mutation logs: never an exception, and what is whole is still told."""

from __future__ import annotations

import io
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from holdfast.agents.gemini.events import GeminiEventBuilder
from holdfast.agents.gemini.inspect import GeminiSurroundings, find_problems, turns
from holdfast.agents.gemini.log import STARTS, MutationLog, is_record
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import encode
from holdfast.transcripts import jsonl
from tests.support.transcript_cases import FIXTURES, check_storable
from tests.support.transcript_damage import damaged, wrong_types


def whole(case: str, name: str = "session.jsonl") -> bytes:
    with open(os.path.join(FIXTURES, "gemini", case, name), "rb") as file:
        return file.read()


SHORT = whole("tool_call")
RESUMED = whole("multi_file_before_wipe", "session-2026-11-15T22-30-f106b938.jsonl")
WIPED = whole("crash_during_resume")


def fold(content: bytes) -> tuple[MutationLog, list[NewEvent]]:
    log = MutationLog()
    for line in jsonl.read(io.BytesIO(content), STARTS, accepts=is_record):
        log.on_line(line)
    events = list(GeminiEventBuilder(log, io.BytesIO(content), "gemini", "x").events())
    for event in events:
        encode(event.body)
    for problem in find_problems(log, "x", GeminiSurroundings(), []):
        encode(problem.evidence)
    turns(log)
    return log, events


def said(events: list[NewEvent]) -> list[tuple[str, Any]]:
    return [(e.kind, e.body["text"]) for e in events if e.kind in ("user", "assistant")]


@pytest.mark.parametrize(("content", "step"), [(whole("crash_midstream"), 1), (SHORT, 3), (WIPED, 3)])
def test_cut_at_every_byte(content: bytes, step: int) -> None:
    every = said(fold(content)[1])
    most = 0
    for end in range(len(content)):
        log, events = fold(content[:end])
        assert said(events) == every[: len(said(events))] and len(said(events)) >= most
        most = len(said(events))
        last = content[:end].rpartition(b"\n")[2]
        assert ("torn_tail" in log.counts) == (bool(last) and end != content.find(b"\n", end))
    assert most == len(every)


def test_wrong_types_in_every_field() -> None:
    for content in (SHORT, WIPED):
        for number, changed in enumerate(wrong_types(content.splitlines(keepends=True))):
            if number % 5 == 0:
                check_storable(fold(changed)[1])


@hypothesis_settings(max_examples=100, deadline=None)
@given(damaged(RESUMED))
def test_accidents(content: bytes) -> None:
    check_storable([event for event in fold(content)[1] if event.kind != "notice"])


@pytest.mark.parametrize("number", range(len(RESUMED.splitlines())))
def test_one_bad_line_costs_at_most_itself(number: int) -> None:
    lines = RESUMED.splitlines(keepends=True)
    every = said(fold(RESUMED)[1])
    lines[number] = lines[number][:-15] + b"\n"
    log, events = fold(b"".join(lines))
    assert log.counts["bad_line"] == 1
    told = said(events)
    assert len(every) - 1 <= len(told) and set(told) <= set(every)
