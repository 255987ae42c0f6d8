"""Kimi Code's and kimi-cli's files: recorded sessions, every kind of record, damage."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.agents.kimi import kimi_cli, kimi_code
from holdfast.agents.kimi.reader import KimiReader
from holdfast.model.event import NewEvent
from holdfast.transcripts.jsonl import JsonlLine
from tests.support import paths
from tests.support import transcript_cases as history_cases

FIXTURES = os.path.join(paths.FIXTURES, "history", "kimi")
RESUMED = "session_0ec7560d-2eb5-4138-a48f-8e90e340f037"
HOME = os.path.join(FIXTURES, "crashed_then_resumed", "kimi-home")


def expected(case: str) -> dict[str, Any]:
    return history_cases.expected("kimi", case)


def cases() -> list[str]:
    return [case for case in sorted(os.listdir(FIXTURES)) if "wire" in expected(case)]


@pytest.mark.parametrize("case", cases())
def test_recorded(case: str) -> None:
    truth = expected(case)
    reader = KimiReader()
    (place,) = reader.find("/nowhere", os.path.join(FIXTURES, case, truth["wire"]))
    assert place.form == ("kimi-cli" if "kimicli" in case else "kimi-code")
    events = list(reader.events(place))
    history_cases.check_storable(events)
    assert history_cases.plain(events) == truth["events"]
    marks = [event.body["code"] for event in events if event.kind in ("notice", "error")]
    assert marks == (["torn_tail"] if truth.get("bad_lines") else [])
    seen = reader.inspect(place)
    assert [call["call"] for call in seen.dangling] == truth["dangling"]
    assert {problem.code.upper() for problem in seen.problems} == set(truth["verdict"]["reasons"])
    assert seen.turns == truth["holdfast"]["turns"]
    complete = [n + 1 for n, done in enumerate(truth["holdfast"]["complete_turns"]) if done]
    assert seen.last_complete == (complete[-1] if complete else None)
    if truth["holdfast"]["sound"] is not None:
        assert seen.sound is truth["holdfast"]["sound"]
    ends = [e.body["call"] for e in events if e.kind == "tool_summary" and e.body["outcome"] == "interrupted"]
    assert ends == truth["dangling"]
    origins = [e.origin for e in events if e.origin is not None]
    assert len(origins) == len(set(origins))
    if bad := truth.get("bad_lines"):
        assert [p.evidence["lines"] for p in seen.problems if p.code == "torn_tail"] == [bad]


def test_an_unknown_session_is_not_found() -> None:
    assert KimiReader().find(HOME, "session_00000000-0000-4000-8000-000000000000") == []


def test_origins_of_calls_are_those_of_the_live_driver() -> None:
    reader = KimiReader()
    (place,) = reader.find("/", os.path.join(FIXTURES, "tool_call"))
    assert place.native_id == "session_dc03cad6-2bae-44d3-893a-d625b29c7b4a"
    records = {e.kind: e.origin.record_id for e in reader.events(place) if e.origin}
    assert records["tool_progress"] == "call:call_097c99f8b0fe4013a40a"
    assert records["tool_summary"] == "result:call_097c99f8b0fe4013a40a"
    assert records["user"].startswith("prompt:msg_") and records["assistant"].startswith("part:")


def test_finding_kimi_code(tmp_path: Path) -> None:
    reader = KimiReader()
    (place,) = reader.find(HOME, RESUMED)
    assert (place.native_id, place.cwd, place.form) == (RESUMED, "/home/dev/km-s", "kimi-code")
    assert place.updated_at == "2026-11-15T23:31:41.202000Z"
    same = [
        RESUMED.removeprefix("session_"),
        place.path,
        os.path.dirname(place.path),
        os.path.dirname(os.path.dirname(os.path.dirname(place.path))),
        os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(place.path))), "state.json"),
        HOME,
        os.path.dirname(HOME),
    ]
    for name in same:
        assert reader.find(HOME, name) == [place], name
    assert list(reader.sessions(HOME)) == list(reader.sessions(HOME, "/home/dev/km-s/")) == [place]
    assert list(reader.sessions(HOME, "/home/dev")) == []
    for odd in ("", ".", "..", "../x", "a\0b"):
        assert odd == "." or odd == ".." or reader.find(str(tmp_path), odd) == []
    assert [os.path.basename(path) for path in reader.files(place)] == [
        "state.json",
        "wire.jsonl",
        "state.json",
    ]
    assert reader.owners(HOME, place) == [] and reader.tools(HOME, place) == []
    assert reader.root({"HOME": "/h"}) == "/h/.kimi-code"
    assert reader.root({"HOME": "/h", "KIMI_CODE_HOME": "/k"}) == "/k"
    assert reader.root({"HOME": "/h", "KIMI_SHARE_DIR": "/s"}) == "/s"


def test_finding_kimi_cli_beside_kimi_code(tmp_path: Path) -> None:
    cwd = "/home/dev/old"
    folder = tmp_path / ".kimi" / "sessions" / hashlib.md5(cwd.encode()).hexdigest() / "1-2-3"
    shutil.copytree(os.path.join(FIXTURES, "kimicli_1.48_crash_midtool"), folder)
    (tmp_path / ".kimi" / "kimi.json").write_text(json.dumps({"work_dirs": [{"path": "/x"}, {"path": cwd}]}))
    shutil.copytree(HOME, tmp_path / ".kimi-code")
    reader = KimiReader()
    root = reader.root({"HOME": str(tmp_path)})
    assert {(p.native_id, p.form, p.cwd) for p in reader.sessions(root)} == {
        (RESUMED, "kimi-code", "/home/dev/km-s"),
        ("1-2-3", "kimi-cli", cwd),
    }
    (place,) = reader.sessions(root, cwd)
    assert reader.find(root, "1-2-3") == [place] == reader.find(root, str(folder))
    assert {os.path.basename(path) for path in reader.files(place)} == {
        "context.jsonl",
        "wire.jsonl",
        "expected.json",
    }


def wire(*records: dict[str, Any]) -> list[JsonlLine]:
    first = {"type": "metadata", "protocol_version": "1.5"}
    return [
        JsonlLine(number=n, offset=100 * n, size=99, value=record)
        for n, record in enumerate([first, *records])
    ]


def transcript(*records: dict[str, Any]) -> tuple[list[NewEvent], kimi_code.KimiCodeWire]:
    made = kimi_code.KimiCodeWire("session_1")
    events = [event for line in wire(*records) for event in made.on_line(line)] + made.end()
    history_cases.check_storable(events)
    return events, made


def prompt(said: str, turn: int = 0, kind: str = "user") -> dict[str, Any]:
    content = [{"type": "text", "text": said}]
    return {"type": "turn.prompt", "input": content, "origin": {"kind": kind}, "turnId": turn}


def loop(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "context.append_loop_event", "event": {"type": kind, **more}, "time": 1000}


def say(said: str, kind: str = "text") -> dict[str, Any]:
    return loop("content.part", part={"type": kind, kind: said})


def ended(turn: int = 0, reason: str = "completed", **more: Any) -> dict[str, Any]:
    return {"type": "turn.ended", "turnId": turn, "reason": reason, **more}


def told(events: list[NewEvent]) -> list[tuple[str, str]]:
    return [(e.kind, e.body.get("code") or e.body.get("text") or e.body.get("outcome", "")) for e in events]


def test_every_kind_of_record() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "do it"}], "origin": {"kind": "user"}}
    events, made = transcript(
        prompt("do it"),
        {"type": "context.append_message", "message": message},
        {"type": "context.append_message", "message": {**message, "origin": {"kind": "injection"}}},
        say("hm", "think"),
        say("I will"),
        say(""),
        loop("tool.call", toolCallId="call_12345678", name="Bash", args={"command": "x"}),
        loop("tool.call", toolCallId="call_23456789", name="Read", args=None),
        loop("tool.result", toolCallId="call_23456789", result={"output": "no", "isError": True}),
        loop("tool.result", toolCallId="call_12345678", result={"output": [{"type": "text", "text": "out"}]}),
        {"type": "turn.steer", "input": [{"type": "text", "text": "faster"}], "origin": {"kind": "user"}},
        {"type": "context.apply_compaction", "summary": "short", "compactedCount": 2},
        {"type": "context.undo", "count": 1},
        {"type": "context.clear"},
        {"type": "from.the.future", "x": 1},
        loop("from.the.future"),
        say("done"),
        ended(),
        prompt("wake up", 1, "cron_job"),
        say("awake"),
        ended(1),
    )
    assert told(events) == [
        ("user", "do it"),
        ("thinking", "hm"),
        ("assistant", "I will"),
        ("tool_progress", ""),
        ("tool_progress", ""),
        ("tool_summary", "error"),
        ("tool_summary", "ok"),
        ("user", "faster"),
        ("notice", "compaction"),
        ("notice", "undo"),
        ("notice", "clear"),
        ("notice", "unknown_record"),
        ("notice", "unknown_record"),
        ("assistant", "done"),
        ("notice", "cron_job"),
        ("assistant", "awake"),
    ]
    turns = made.conversation.turns
    assert (turns.count, turns.last_complete, turns.problems()) == (2, 2, [])


def test_messages_without_loop_events_are_read_too() -> None:
    def message(role: str, said: str, **more: Any) -> dict[str, Any]:
        content = [{"type": "text", "text": said}]
        return {"type": "context.append_message", "message": {"role": role, "content": content, **more}}

    call = {"type": "function", "id": "call_12345678", "name": "Bash", "arguments": '{"command":"x"}'}
    events, _ = transcript(
        message("user", "old prompt"),
        message("assistant", "old answer", toolCalls=[call]),
        message("tool", "old output", toolCallId="call_12345678"),
    )
    assert told(events) == [
        ("user", "old prompt"),
        ("assistant", "old answer"),
        ("tool_progress", ""),
        ("tool_summary", "ok"),
    ]
    assert events[2].body["input"] == {"command": "x"}


@pytest.mark.parametrize(
    ("records", "code"),
    [
        ([prompt("b", 1)], "no_reply"),
        ([prompt("b", 1), say("half")], "turn_unfinished"),
        ([prompt("b", 1), say("half"), ended(0)], "turn_unfinished"),
        ([prompt("b", 1), loop("tool.call", toolCallId="c", name="Bash")], "dangling_call"),
        ([prompt("b", 1), ended(1, "failed", error={"message": "no", "code": "x"})], "ended_in_api_error"),
        ([prompt("b", 1), say("x"), ended(1, "cancelled")], "interrupted_on_purpose"),
    ],
)
def test_how_the_last_turn_ended(records: Any, code: str | None) -> None:
    _, made = transcript(prompt("a"), say("fine"), ended(), *records)
    turns = made.conversation.turns
    assert [problem.code for problem in turns.problems()] == [code]
    assert (turns.count, turns.last_complete) == (2, 1)


def test_a_cancelled_call_was_interrupted() -> None:
    events, _ = transcript(
        prompt("a"),
        loop("tool.call", toolCallId="call_12345678", name="Bash"),
        {"type": "turn.cancel", "turnId": 0},
        loop("tool.result", toolCallId="call_12345678", result={"output": "stopped", "isError": True}),
        ended(0, "cancelled"),
    )
    assert told(events)[2] == ("tool_summary", "interrupted") and events[2].origin is not None


def test_two_writers_and_results_out_of_place() -> None:
    events, made = transcript(
        prompt("a", 1),
        loop("tool.call", toolCallId="call_12345678", name="Bash"),
        prompt("b", 1),
        loop("tool.result", toolCallId="call_12345678", result={"output": "late"}),
        loop("tool.result", toolCallId="call_99999999", result={"output": "whose"}),
        say("fine"),
        ended(1),
    )
    assert set(made.conversation.odd) == {"forked_history", "orphan_result"}
    assert made.conversation.turns.dangling == []
    late = [e.body for e in events if e.kind == "tool_summary" and e.body["output"] == "late"]
    assert late[0]["name"] == "Bash" and late[0]["outcome"] == "ok"


def write(folder: Any, *records: dict[str, Any] | bytes, name: str = "wire.jsonl") -> str:
    folder.mkdir(exist_ok=True)
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    (folder / name).write_bytes(b"".join(line + b"\n" for line in lines))
    return str(folder)


def problems(folder: str) -> set[str]:
    reader = KimiReader()
    (place,) = reader.find("/", folder)
    history_cases.check_storable(reader.events(place), doubled=True)
    return {problem.code for problem in reader.inspect(place).problems}


def cli(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": 1.5, "message": {"type": kind, "payload": payload}}


CALL = {
    "type": "function",
    "id": "call_12345678",
    "function": {"name": "Shell", "arguments": '{"command":"x"}'},
}


def test_kimi_cli_whole(tmp_path: Path) -> None:
    result = {"is_error": True, "output": "", "message": "failed", "display": []}
    records: list[dict[str, Any]] = [
        {"type": "metadata", "protocol_version": "1.10"},
        cli("TurnBegin", user_input=[{"type": "text", "text": "do it"}]),
        cli("StepBegin", n=1),
        cli("ContentPart", type="think", think="hm"),
        cli("ContentPart", type="text", text="I will"),
        cli("ToolCall", **CALL),
        cli("ToolResult", tool_call_id="call_12345678", return_value=result),
        cli("StatusUpdate"),
        cli("CompactionEnd"),
        cli("Notification", title="t", body="b"),
        cli("FromTheFuture"),
        cli("ContentPart", type="text", text="done"),
        cli("TurnEnd"),
    ]
    folder = write(tmp_path / "s", *records)
    context: list[dict[str, Any]] = [
        {"role": "_system_prompt", "content": "…"},
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": "I will", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_12345678", "content": "failed"},
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
    ]
    write(tmp_path / "s", *context, name="context.jsonl")
    reader = KimiReader()
    (place,) = reader.find("/", folder)
    events = list(reader.events(place))
    assert told(events) == [
        ("user", "do it"),
        ("thinking", "hm"),
        ("assistant", "I will"),
        ("tool_progress", ""),
        ("tool_summary", "error"),
        ("notice", "compaction"),
        ("notice", "notification"),
        ("notice", "unknown_record"),
        ("assistant", "done"),
    ]
    assert events[4].body["output"] == "failed" and events[0].at == "1970-01-01T00:00:01.500000Z"
    assert problems(folder) == set()
    write(tmp_path / "s", *context[:2], name="context.jsonl")
    assert problems(folder) == set()  # compacted: what was before is not looked for
    write(tmp_path / "s", *[r for r in records if r != cli("CompactionEnd")])
    assert problems(folder) == {"context_forgets_step"}
    os.unlink(tmp_path / "s" / "wire.jsonl")
    write(tmp_path / "s", *context, name="context.jsonl")
    kinds = [event.kind for event in reader.events(reader.find("/", folder)[0])]
    assert kinds == ["user", "assistant", "tool_progress", "tool_summary", "assistant"]
    assert problems(folder) == set()


def test_kimi_cli_forgets_what_was_only_said(tmp_path: Path) -> None:
    happened = [cli("TurnBegin", user_input="a"), cli("ContentPart", type="text", text="b")]
    folder = write(tmp_path / "s", {"type": "metadata", "protocol_version": "1.10"}, *happened)
    write(tmp_path / "s", {"role": "user", "content": "a"}, name="context.jsonl")
    assert problems(folder) == {"context_forgets_step", "turn_unfinished"}


def test_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    good = [{"type": "metadata"}, {**prompt("a"), "time": 1}, say("b"), {**ended(), "time": 2}]
    assert problems(write(tmp_path / "good", *good)) == set()
    assert problems(write(tmp_path / "bad", *good[:2], b'{"type":"x', *good[2:])) == {"bad_line"}
    glued = json.dumps(good[1]).encode()[:40] + json.dumps(good[2]).encode()
    assert "glued_lines" in problems(write(tmp_path / "glued", good[0], good[1], glued, good[3]))
    assert problems(write(tmp_path / "header", *good[1:])) == {"bad_header"}
    assert problems(write(tmp_path / "only", good[0])) == {"no_messages"}
    assert problems(write(tmp_path / "empty")) == {"empty"}
    folder = write(tmp_path / "session_x", *good)
    (tmp_path / "session_x" / "state.json").write_text('{"id":"session_y"}')
    assert problems(folder) == {"session_id_mismatch"}
    (tmp_path / "session_x" / "state.json").write_text("[" * 100_000)
    assert problems(folder) == set()
    with open(tmp_path / "good" / "wire.jsonl", "ab") as file:
        file.write(bytes(5000))
    assert problems(str(tmp_path / "good")) == {"nul_tail"}


def test_a_file_that_went_away(tmp_path: Path) -> None:
    folder = write(tmp_path / "s", {"type": "metadata"})
    reader = KimiReader()
    (place,) = reader.find("/", folder)
    shutil.rmtree(folder)
    assert [problem.code for problem in reader.inspect(place).problems] == ["no_transcript"]
    assert [event.body["code"] for event in reader.events(place)] == ["no_transcript"]
    assert reader.files(place) == []


def without_bulk(case: str) -> bytes:
    """A recorded file without its two long lines, which say nothing here."""
    with open(os.path.join(FIXTURES, case, "wire.jsonl"), "rb") as file:
        return b"".join(line for line in file if len(line) < 5000)


@pytest.mark.parametrize("case", ["tool_call", "kimicli_1.48_crash_midtool"])
def test_cut_at_every_byte(tmp_path: Path, case: str) -> None:
    whole = without_bulk(case)
    folder = tmp_path / "s"
    if "kimicli" in case:
        shutil.copytree(os.path.join(FIXTURES, case), folder)
    folder.mkdir(exist_ok=True)
    reader = KimiReader()
    before = -1
    for size in range(0, len(whole) + 1, 1 if len(whole) < 2000 else 7):
        (folder / "wire.jsonl").write_bytes(whole[:size])
        (place,) = reader.find("/", str(folder))
        events = [
            e for e in reader.events(place) if e.kind not in ("notice", "error") and e.origin is not None
        ]
        assert len(events) >= before  # what is whole before the cut is read
        before = len(events)
        history_cases.check_storable(events)
        reader.inspect(place)
    assert before >= 3


@pytest.mark.parametrize("seed", range(40))
def test_mutated(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(without_bulk("tool_call" if seed % 2 else "kimicli_1.48_crash_midtool"))
    lines = bytes(data).splitlines(keepends=True)
    for _ in range(chance.randint(1, 5)):
        what = chance.choice(["flip", "swap", "double", "glue", "nul", "deep", "huge"])
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        if what == "flip" and lines[at]:
            raw = bytearray(lines[at])
            raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
            lines[at] = bytes(raw)
        elif what == "swap":
            lines[at], lines[other] = lines[other], lines[at]
        elif what == "double":
            lines.insert(at, lines[other])
        elif what == "glue":
            lines[at] = lines[at].rstrip(b"\n")
        elif what == "nul":
            lines[at] = bytes(100)
        elif what == "deep":
            lines[at] = b'{"type":"turn.prompt","input":' + b"[" * 3000 + b"]" * 3000 + b"}\n"
        else:
            lines[at] = b'{"type":"turn.ended","turnId":1' + b"0" * 5000 + b',"time":1e999}\n'
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "wire.jsonl").write_bytes(b"".join(lines))
    problems(str(folder))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = [
    "message",
    "event",
    "input",
    "origin",
    "turnId",
    "promptId",
    "time",
    "reason",
    "error",
    "summary",
    "count",
]
KINDS = ["turn.prompt", "turn.steer", "turn.ended", "turn.cancel", "context.append_message", "context.undo"]
KINDS += ["context.append_loop_event", "context.apply_compaction", "x"]
INNER = [
    "type",
    "role",
    "content",
    "toolCalls",
    "toolCallId",
    "part",
    "args",
    "name",
    "result",
    "origin",
    "id",
]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(KINDS),
    st.sampled_from(["assistant", "tool", "user", "tool.call", "tool.result", "content.part"]),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6),
    st.dictionaries(st.sampled_from(INNER), VALUES, max_size=6),
)
def test_any_value_in_every_field(kind: Any, role: Any, record: Any, within: Any) -> None:
    both = {**within, "role": role, "type": role}
    transcript(
        prompt("a"), {**record, "type": kind}, {**record, "type": kind, "message": both, "event": both}
    )
    made = kimi_cli.KimiCliWire("1")
    for name in ("TurnBegin", "ContentPart", "ToolCall", "ToolResult", "StepRetry", "PlanDisplay", "x"):
        payload = {**record, **within, "function": within.get("part"), "user_input": within.get("content")}
        line = JsonlLine(number=1, offset=1, size=1, value={"message": {"type": name, "payload": payload}})
        history_cases.check_storable(made.on_line(line))
    messages = kimi_cli.KimiCliMessages("1")
    value = {**within, "role": role, "tool_calls": within.get("toolCalls")}
    history_cases.check_storable(messages.on_line(JsonlLine(number=1, offset=1, size=1, value=value)))
    messages.context.forgets(made)
