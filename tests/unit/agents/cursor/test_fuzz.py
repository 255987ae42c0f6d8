"""Cursor's stores after any damage: never an exception, and what is whole is still read."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.agents.cursor import tool_calls
from holdfast.agents.cursor.checkpoints import CheckpointGraph
from holdfast.agents.cursor.protobuf import ProtobufMessage as Protobuf
from holdfast.agents.cursor.reader import CursorReader, find_problems
from holdfast.agents.cursor.sdk_runs import SdkRun, SdkRunMessage, run_events, runs_with_problems
from holdfast.model.event import NewEvent, check
from holdfast.model.json_codec import encode
from holdfast.transcripts.jsonl import parse
from tests.support import paths

RECORDED = paths.FIXTURES / "history" / "cursor"
AGENT = "agent-d7927615-88d2-4f2b-85e4-dd6bca6ddcdf"
READER = CursorReader()
SDK_FILES = ("agents.ndjson", "runs.ndjson", "run_events.ndjson", "checkpoints.ndjson")

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def sound_events(events: list[NewEvent]) -> None:
    for event in events:
        check(event)
        encode(event.body)


def read_all(root: Path) -> list[NewEvent]:
    """Everything that can be asked of a store."""
    found: list[NewEvent] = []
    for place in READER.sessions(str(root)):
        events = list(READER.events(place))
        sound_events(events)
        found += events
        seen = READER.inspect(place)
        assert seen.sound == (not seen.problems)
        encode([problem.evidence for problem in seen.problems])
    return found


def jsonl_store(tmp_path: Path) -> Path:
    target = tmp_path / "store"
    shutil.copytree(RECORDED / "sdk-jsonl", target)
    return target


@pytest.mark.parametrize(
    ("name", "step"), [("agents.ndjson", 3), ("runs.ndjson", 7), ("checkpoints.ndjson", 101)]
)
def test_rows_cut_at_any_byte(tmp_path: Path, name: str, step: int) -> None:
    store = jsonl_store(tmp_path)
    whole = (store / name).read_bytes()
    for end in range(0, len(whole), step):
        (store / name).write_bytes(whole[:end])
        read_all(store)


def test_events_cut_at_any_byte_keep_what_is_before(tmp_path: Path) -> None:
    store = jsonl_store(tmp_path)
    path = store / "run_events.ndjson"
    whole = path.read_bytes()
    complete = [json.loads(line) for line in whole.splitlines()]
    ends, at = [], 0
    for line in whole.splitlines(keepends=True):
        at += len(line)
        ends.append(at)
    place = READER.find(str(store), AGENT)[0]
    for end in range(0, len(whole), 61):
        path.write_bytes(whole[:end])
        events = list(READER.events(place))
        sound_events(events)
        seen = {e.origin.record_id for e in events if e.origin is not None}
        for row, row_end in zip(complete, ends, strict=True):
            kind = row["payload"]["message"]["type"]
            if row_end <= end and kind in ("user", "tool_call"):
                assert f"{row['runId']}:{row['seq']}" in seen
        torn = end not in ends and end > 0 and end + 1 not in ends
        codes = {problem.code for problem in READER.inspect(place).problems}
        assert ("torn_tail" in codes) == torn


def test_a_damaged_line_in_the_middle_is_a_notice_in_its_place(tmp_path: Path) -> None:
    store = jsonl_store(tmp_path)
    path = store / "run_events.ndjson"
    rows = path.read_bytes().splitlines()
    rows[8] = rows[8][:100]  # the first call
    path.write_bytes(b"\n".join(rows) + b"\n")
    place = READER.find(str(store), AGENT)[0]
    events = list(READER.events(place))
    assert [e.kind for e in events[:6]] == [
        "user",
        "thinking",
        "assistant",
        "notice",
        "tool_progress",
        "tool_summary",
    ]
    assert events[3].body["code"] == "bad_line"
    assert {p.code for p in READER.inspect(place).problems} == {"bad_line"}
    assert len([e for e in events if e.kind == "assistant"]) == 4


def test_glued_lines_are_both_read(tmp_path: Path) -> None:
    store = jsonl_store(tmp_path)
    before = read_all(store)
    path = store / "run_events.ndjson"
    path.write_bytes(path.read_bytes().replace(b"}\n{", b"}{", 5))
    place = READER.find(str(store), AGENT)[0]
    assert list(READER.events(place)) == before
    assert {p.code for p in READER.inspect(place).problems} == {"glued_lines"}


@pytest.mark.parametrize("seed", range(150))
def test_jsonl_store_after_random_damage(tmp_path: Path, seed: int) -> None:
    store, dice = jsonl_store(tmp_path), random.Random(seed)
    for name in dice.sample(SDK_FILES, dice.randint(1, 3)):
        path = store / name
        path.write_bytes(damaged(path.read_bytes(), dice))
    read_all(store)


@pytest.mark.parametrize("seed", range(80))
@pytest.mark.parametrize("case", ["sdk-sqlite", "cursor-home"])
def test_sqlite_stores_after_random_damage(tmp_path: Path, case: str, seed: int) -> None:
    home, dice = tmp_path / "home", random.Random(seed)
    shutil.copytree(RECORDED / case, home)
    for path in sorted(home.rglob("*")):
        if (
            path.is_file()
            and path.name.startswith(("index.db", "store.db", "meta.json"))
            and dice.random() < 0.6
        ):
            path.write_bytes(damaged(path.read_bytes(), dice))
    read_all(home)


@pytest.mark.parametrize("seed", range(60))
def test_transcripts_after_random_damage(tmp_path: Path, seed: int) -> None:
    home, dice = tmp_path / "home", random.Random(seed)
    shutil.copytree(RECORDED / "cursor-home" / ".cursor" / "projects", home / "projects")
    for path in sorted(home.rglob("*.jsonl")):
        path.write_bytes(damaged(path.read_bytes(), dice))
        if dice.random() < 0.3:
            path.rename(path.with_suffix(".txt"))
    read_all(home)


def damaged(data: bytes, dice: random.Random) -> bytes:
    """One of the things that happen to files."""
    what = dice.randrange(8)
    at = dice.randrange(len(data)) if data else 0
    if what == 0:
        return data[:at]
    if what == 1:
        flipped = bytearray(data)
        for _ in range(dice.randint(1, 60)):
            flipped[dice.randrange(len(flipped))] ^= 1 << dice.randrange(8)
        return bytes(flipped)
    lines = data.split(b"\n")
    if what == 2:
        dice.shuffle(lines)
    elif what == 3:
        lines += lines[: dice.randint(1, 5)]
    elif what == 4:
        return data.replace(b"\n", b"", dice.randint(1, 9))
    elif what == 5:
        return data + bytes(512)
    elif what == 6:
        return data[:at] + b"[" * 5000 + b'{"a":' * 500 + b"1e999" + data[at:]
    else:
        return data[:at] + dice.randbytes(200) + data[at + dice.randint(0, 300) :]
    return b"\n".join(lines)


def test_a_store_that_is_something_else(tmp_path: Path) -> None:
    for content in (b"", b"\0" * 4096, b"SQLite format 3\0", b"not a database at all" * 300):
        for name in ("index.db", "a/store.db", "b/agents.ndjson"):
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        read_all(tmp_path)
    for name in ("c/store.db", "d/agents.ndjson", "e/meta.json"):
        (tmp_path / name).mkdir(parents=True)
    read_all(tmp_path)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 8), anything), max_size=8), st.text(max_size=9))
def test_any_message_in_a_run(told: list[tuple[int, Any]], status: str) -> None:
    kinds = ("user", "assistant", "thinking", "tool_call", "status", "usage", "task", "system", "result")
    messages = []
    for number, (kind, value) in enumerate(told, 1):
        message = dict(value) if isinstance(value, dict) else {"message": value, "text": value, "args": value}
        message |= {"type": kinds[kind], "status": value, "result": value, "call_id": value, "name": value}
        payload = {"schemaVersion": 1, "type": "sdk_message", "message": message}
        messages.append(
            SdkRunMessage(seq=number, payload=parse(json.dumps(payload if kind >= 0 else message).encode()))
        )
    events = list(run_events("a", [(SdkRun(id="r", status=status), messages)]))
    sound_events(events)
    find_problems(runs_with_problems("a", [(SdkRun(id="r", status=status), messages)]), has_runs=True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(SDK_FILES), st.integers(0, 30), st.data())
def test_any_value_in_any_field_of_a_row(tmp_path: Path, name: str, number: int, data: st.DataObject) -> None:
    store = tmp_path / "store"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(RECORDED / "sdk-jsonl", store)
    rows = [json.loads(line) for line in (store / name).read_text().splitlines()]
    row = rows[number % len(rows)]
    inner = row.get("payload", row)
    key = data.draw(st.sampled_from(sorted(inner)))
    inner[key] = data.draw(anything)
    (store / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    read_all(store)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_as_protobuf(data: bytes) -> None:
    told = Protobuf(data)
    encode(told.strings())
    found = tool_calls.read(data)
    encode([found.input, found.output])
    ids = {b"\x11" * 32: data, b"\x22" * 32: b"\x0a\x20" + b"\x22" * 32 + b"\x42\x20" + b"\x11" * 32 + data}
    blobs = {key.hex(): value for key, value in ids.items()}
    for root in blobs:
        items = list(CheckpointGraph("n", root, blobs.get).items())
        sound_events([item for item in items if isinstance(item, NewEvent)])
        find_problems(items, has_runs=False)


def test_messages_deep_inside_each_other() -> None:
    data = b""
    for _ in range(20_000):
        data = b"\x0a" + size(len(data)) + data
    assert Protobuf(data).strings() == []
    assert tool_calls.read(data).outcome is None


def size(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
