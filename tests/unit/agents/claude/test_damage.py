"""Damaged transcripts: never an exception, never a hang, and what is whole is still told."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings

from holdfast.agents.claude.reader import ClaudeReader
from holdfast.agents.claude.subagents import session_events
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import encode
from holdfast.transcripts import jsonl as wire
from holdfast.transcripts.reader import Inspection, SessionRef
from tests.support.claude_transcripts import ID, Made, cases, told
from tests.support.transcript_cases import check_storable
from tests.support.transcript_damage import damaged, wrong_types

READER = ClaudeReader()
CASES = cases()


def content(name: str) -> bytes:
    path, id, _ = CASES[name]
    with open(path, "rb") as file:
        return file.read().replace(id.encode(), ID.encode())


LONG = content("corrupt-2.1.197/m0_intact.jsonl")
SHORT = content("1.0.72/b4f17ae9-91e3-4603-b34d-6881617605e4.jsonl")
BARE = content("2.1.197/kill_parallel_resume")
QUEUED = content("2.1.197/control_protocol")


FOLDER = tempfile.TemporaryDirectory()
PLACE = SessionRef(agent="claude", native_id=ID, path=os.path.join(FOLDER.name, ID + ".jsonl"))


def read(data: bytes) -> tuple[list[NewEvent], Inspection]:
    with open(PLACE.path, "wb") as file:
        file.write(data)
    events = list(READER.events(PLACE))
    found = READER.inspect(PLACE)
    check_storable(events)
    encode(found)
    opened = [e.body["call"] for e in events if e.kind == "tool_progress"]
    ended = [e.body["call"] for e in events if e.kind == "tool_summary"]
    assert len(set(opened)) == len(opened) and len(set(ended)) == len(ended) and set(opened) <= set(ended)
    return events, found


def texts(events: list[NewEvent]) -> list[str]:
    return [event.body["text"] for event in events if event.kind in ("user", "assistant", "thinking")]


def test_cut_at_every_byte() -> None:
    whole = texts(read(SHORT)[0])
    lines = SHORT.splitlines(keepends=True)
    ends = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
    for size in range(len(SHORT)):
        events, found = read(SHORT[:size])
        complete = sum(end <= size for end in ends) - 1
        said = texts(events)
        assert said == whole[: len(said)]
        assert len(said) >= sum(1 for line in lines[:complete] if b'"text"' in line and b'"user"' not in line)
        if size not in ends and size + 1 not in ends:
            assert "torn_tail" in {problem.code for problem in found.problems}
            assert not found.sound


@settings(max_examples=150, deadline=None)
@given(damaged(LONG))
def test_accidents(data: bytes) -> None:
    read(data)
    assert [place.native_id for place in READER.sessions(FOLDER.name)] == [ID]


@settings(max_examples=80, deadline=None)
@given(damaged(BARE))
def test_accidents_in_a_file_out_of_order(data: bytes) -> None:
    read(data)


@pytest.mark.parametrize("part", range(6))
def test_wrong_types_in_every_field(part: int) -> None:
    lines = [line for line in QUEUED.splitlines(keepends=True) if len(line) < 3000][12:31]
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, ID + ".jsonl")
        place = SessionRef(agent="claude", native_id=ID, path=path)
        for number, data in enumerate(wrong_types(lines)):
            if number % 24 != part:
                continue
            with open(path, "wb") as file:
                file.write(data)
            check_storable(READER.events(place))
            encode(READER.inspect(place))
            READER.find("", path)
            if time.monotonic() - begin > 1.5:
                break


def test_what_is_around_a_bad_line_is_read() -> None:
    lines = LONG.splitlines(keepends=True)
    whole = texts(read(LONG)[0])
    for number in range(len(lines)):
        for bad in (b"\xff\xfe\n", b"\0\0\0\0\n", b"[" * 3000 + b"\n", b'{"a":1e999}\n', b"nonsense\n"):
            events, found = read(b"".join([*lines[:number], bad, *lines[number:]]))
            assert texts(events) == whole
            assert bad.startswith(b'{"a"') or "bad_line" in {problem.code for problem in found.problems}


def test_lines_in_any_order_are_told_in_theirs() -> None:
    chain = [line for line in LONG.splitlines(keepends=True) if b'"parentUuid"' in line]
    whole = texts(read(b"".join(chain))[0])
    assert texts(read(b"".join(reversed(chain)))[0]) == whole
    assert texts(read(b"".join(chain[1::2] + chain[::2]))[0]) == whole
    assert read(b"".join(reversed(chain)))[1].problems == []
    doubled = read(b"".join(line + line for line in chain))
    assert texts(doubled[0]) == whole
    assert [problem.code for problem in doubled[1].problems] == ["duplicate_record"]


def test_what_no_store_takes_is_no_event(tmp_path: Path) -> None:
    made = Made(tmp_path)
    deep: object = 1
    for _ in range(wire.DEEPEST + 20):
        deep = [deep]
    made.user("one")
    made.calls("c1", given={"deep": deep})
    made.calls("c2", given={"number": 10**400, "text": "\ud800"})
    made.raw({"type": "odd", "deep": deep})
    made.says("A\ud83d", uuid="\ud83d")
    made.says("error", error={"deep": deep})
    made.user("x\0y", uuid="x\0y")
    made.add("system", subtype="future", deep=deep)
    place = made.place()
    check_storable(READER.events(place))
    assert "assistant A\ud83d" in told(place) and "user x\0y" in told(place)
    encode(READER.inspect(place))


def test_a_line_longer_than_any_event_is_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LONGEST", 2000)
    made = Made(tmp_path)
    made.user("one")
    made.user("x" * 5000, uuid="long")
    made.raw(b"y" * 5000)
    made.says("A1", parent="long")
    shown = told(made.place())
    assert shown[0] == "user one" and shown[-1] == "assistant A1" and len(shown) == 4
    assert all("too long" in line for line in shown[1:3])
    odd = [event for event in READER.events(made.place()) if event.kind == "notice"]
    places = [sum(map(len, made.lines[:number])) for number in (1, 2)]
    assert [event.origin and event.origin.record_id for event in odd] == [f"byte:{at}" for at in places]


def test_a_file_of_nothing_but_one_long_line_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / (ID + ".jsonl")
    with open(path, "wb") as file:
        file.truncate(100 << 20)  # NULs, with no newline
    begin = time.monotonic()
    events = list(session_events(str(path), ID))
    assert len(events) == 1 and events[0].body["bytes"] == 100 << 20
    assert time.monotonic() - begin < 20


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for number in range(2000):
        made.user(f"P{number} " + "x" * 200, parent="later" if number == 3 else ...)
    made.user("end", uuid="later", parent=None)
    place = made.place()
    events = READER.events(place)
    for _ in range(10):
        next(events)
    os.truncate(place.path, 1000)
    list(events)


def test_subagents_whose_files_are_odd(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.user("go")
    made.calls("t1", "Agent", {"prompt": "sub"})
    made.returns("t1", toolUseResult={"agentId": "../../etc/passwd"})
    made.calls("t2", "Agent", {"prompt": "sub"})
    made.returns("t2", toolUseResult={"agentId": "x2"})
    place = made.place()
    folder = tmp_path / made.id / "subagents"
    (folder / "agent-dir.jsonl").mkdir(parents=True)
    (folder / "agent-x1.jsonl").write_bytes(b"\xff\n" + json.dumps({"type": "user"}).encode())
    for meta in (b"", b"[1]", b"\xff", b'{"toolUseId":3}', b'{"toolUseId":"t1"}'):
        (folder / "agent-x1.meta.json").write_bytes(meta)
        (folder / "agent-dir.meta.json").write_bytes(meta)
        check_storable(READER.events(place))
        READER.inspect(place)
        READER.files(place)
    assert any(line.startswith("notice") and line.endswith("<t1") for line in told(place))
