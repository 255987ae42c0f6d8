"""OpenCode's database: recorded sessions, every kind of part, damage, and what must never be read."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.agents.opencode.reader import OpenCodeReader
from holdfast.model.event import NewEvent
from tests.support import paths
from tests.support import transcript_cases as history_cases

FIXTURES = os.path.join(paths.FIXTURES, "history", "opencode")
SESSION = "ses_e1ebc097affed8WqPs88eCJsFR"
NAMES = {
    "user": "user",
    "assistant": "assistant",
    "thinking": "thinking",
    "tool_progress": "tool_call",
    "tool_summary": "tool_result",
}


def expected(case: str) -> dict[str, Any]:
    return history_cases.expected("opencode", case)


def cases() -> list[tuple[str, str]]:
    return [(case, id) for case in sorted(os.listdir(FIXTURES)) for id in expected(case).get("sessions", {})]


@pytest.mark.parametrize(("case", "id"), cases())
def test_recorded(case: str, id: str) -> None:
    truth = expected(case)["sessions"][id]
    reader = OpenCodeReader()
    (place,) = reader.find(os.path.join(FIXTURES, case), id)
    assert place.cwd == truth["directory"]
    events = list(reader.events(place))
    history_cases.check_storable(events)
    assert history_cases.plain(events) == truth["events"]
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
    assert all(e.at is not None for e in events if e.origin is not None)


def test_a_dangling_call_ends_before_the_next_prompt() -> None:
    reader = OpenCodeReader()
    (place,) = reader.find(os.path.join(FIXTURES, "two_sessions"), "ses_e1e72e878ffeSqAR70RJaGEEwV")
    kinds = [event.kind for event in reader.events(place)]
    assert kinds == ["user", "assistant", "tool_progress", "tool_summary", "user", "assistant"]


def test_a_database_without_its_header_is_damaged(tmp_path: Path) -> None:
    root = os.path.join(FIXTURES, "edited_header_gone")
    reader = OpenCodeReader()
    for name in ("ses_any", os.path.join(root, "opencode.db"), root):
        (place,) = reader.find(root, name)
        seen = reader.inspect(place)
        assert [problem.code for problem in seen.problems] == ["store_damaged"] and not seen.sound
        assert [event.body["code"] for event in reader.events(place)] == ["store_damaged"]
    assert list(reader.sessions(root)) == []


def test_origins_are_those_of_the_live_driver() -> None:
    reader = OpenCodeReader()
    (place,) = reader.find(os.path.join(FIXTURES, "tool_call"), SESSION)
    records = [event.origin.record_id for event in reader.events(place) if event.origin]
    call = "call_11b78d1f48bc4f3599d8"
    assert records == [
        "message:msg_1e143f6ef001BDx5TVirdW4lxw:0",
        "message:msg_1e143f9db001TRvkkLhGYK1784:0",
        f"call:{call}",
        f"result:{call}",
        "message:msg_1e143fd60001pRS0JidRDIWtpc:0",
    ]


def test_finding(tmp_path: Path) -> None:
    reader = OpenCodeReader()
    root = os.path.join(FIXTURES, "two_sessions")
    both = {"ses_e1e73085fffekZgCgYdOL6E298", "ses_e1e72e878ffeSqAR70RJaGEEwV"}
    assert {place.native_id for place in reader.sessions(root)} == both
    assert {place.native_id for place in reader.find(root, root)} == both
    assert {place.native_id for place in reader.find("/", os.path.join(root, "opencode.db"))} == both
    assert [place.native_id for place in reader.sessions(root, "/home/dev/oc-s1/")] == [
        "ses_e1e73085fffekZgCgYdOL6E298"
    ]
    assert list(reader.sessions(root, "/nowhere")) == [] and reader.find(root, "ses_none") == []
    assert reader.find(str(tmp_path), "ses_none") == [] and list(reader.sessions(str(tmp_path / "no"))) == []
    data = tmp_path / "share" / "opencode"
    shutil.copytree(root, data)
    assert len(list(reader.sessions(reader.root({"XDG_DATA_HOME": str(tmp_path / "share")})))) == 2
    assert reader.root({"HOME": "/h"}) == "/h/.local/share/opencode"
    assert reader.root({"HOME": "/h", "OPENCODE_DB": "x.db"}) == "/h/.local/share/opencode/x.db"
    assert reader.root({"HOME": "/h", "OPENCODE_DB": "/y.db"}) == "/y.db"
    (place,) = reader.find(root, "ses_e1e73085fffekZgCgYdOL6E298")
    assert reader.files(place) == [] and reader.owners(root, place) == [] and reader.tools(root, place) == []
    assert place.title == "fake title" and place.updated_at == "2026-11-15T23:31:15.238000Z"


def test_a_store_that_went_away_is_missing(tmp_path: Path) -> None:
    reader = OpenCodeReader()
    shutil.copytree(os.path.join(FIXTURES, "tool_call"), tmp_path / "a")
    (place,) = reader.find(str(tmp_path / "a"), SESSION)
    os.unlink(place.path)
    assert [problem.code for problem in reader.inspect(place).problems] == ["missing_store"]
    assert [event.body["code"] for event in reader.events(place)] == ["missing_store"]


def test_nothing_is_written(tmp_path: Path) -> None:
    reader = OpenCodeReader()
    shutil.copytree(os.path.join(FIXTURES, "crash_midtool"), tmp_path / "a")
    before = {e.name: (e.stat().st_size, e.stat().st_mtime_ns) for e in os.scandir(tmp_path / "a")}
    (place,) = reader.sessions(str(tmp_path / "a"))
    assert list(reader.events(place)) and reader.inspect(place).turns == 1
    assert {e.name: (e.stat().st_size, e.stat().st_mtime_ns) for e in os.scandir(tmp_path / "a")} == before


class Made:
    """A copy of the recorded database whose session gets other messages."""

    def __init__(self, folder: str):
        shutil.copytree(os.path.join(FIXTURES, "tool_call"), folder, dirs_exist_ok=True)
        self.folder = folder
        self.path = os.path.join(folder, "opencode.db")
        self.db = apsw.Connection(self.path)
        self.db.execute("delete from part; delete from message; delete from event")
        self.number = 0

    def message(self, role: str, *parts: dict[str, Any] | str | bytes, **more: Any) -> str:
        self.number += 1
        id = f"msg_{self.number:08d}abcd"
        data = {"role": role, "time": {"created": 1, "completed": 2}, **more}
        sql = "insert into message values(?, ?, ?, ?, ?)"
        self.db.execute(sql, (id, SESSION, self.number, self.number, json.dumps(data)))
        for n, part in enumerate(parts):
            value = part if isinstance(part, (str, bytes)) else json.dumps(part)
            name = f"prt_{self.number:08d}_{n:03d}"
            self.db.execute("insert into part values(?, ?, ?, 5, 6, ?)", (name, id, SESSION, value))
        return id

    def read(self) -> tuple[list[NewEvent], list[str], Any]:
        reader = OpenCodeReader()
        (place,) = reader.find(self.folder, SESSION)
        events = list(reader.events(place))
        history_cases.check_storable(events)
        seen = reader.inspect(place)
        return events, [problem.code for problem in seen.problems], seen


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def tool(call: str, status: str, **state: Any) -> dict[str, Any]:
    return {
        "type": "tool",
        "tool": "bash",
        "callID": call,
        "state": {"status": status, "input": {"command": "x"}, **state},
    }


def told(events: list[NewEvent]) -> list[tuple[str, str]]:
    return [(e.kind, e.body.get("code") or e.body.get("text") or e.body.get("outcome", "")) for e in events]


SAID = ("thinking", "assistant")


def test_every_kind_of_part(tmp_path: Path) -> None:
    made = Made(str(tmp_path))
    made.message(
        "user",
        text("do it"),
        text("the file says …", synthetic=True),
        {"type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,AAAA"},
        {"type": "agent", "name": "explore"},
    )
    made.message(
        "assistant",
        {"type": "step-start"},
        {"type": "reasoning", "text": "hm", "time": {"start": 1000}},
        text("first"),
        text("second"),
        tool("call_00000001aa", "completed", output="out", metadata={"exit": 3}),
        text("third"),
        {"type": "patch", "hash": "h", "files": ["/a", "/b"]},
        {"type": "retry", "attempt": 1, "error": {"name": "APIError", "data": {"message": "slow down"}}},
        {"type": "snapshot", "snapshot": "x"},
        {"type": "from the future", "x": 1},
        {"type": "step-finish", "reason": "tool-calls"},
        finish="tool-calls",
    )
    made.message(
        "assistant",
        tool("call_00000002aa", "error", error="no such file"),
        tool("call_00000003aa", "error", error="Tool execution aborted", metadata={"interrupted": True}),
        text("done"),
        finish="stop",
    )
    made.message("user", {"type": "compaction", "auto": True})
    made.message("assistant", text("summary of it all"), summary=True, finish="stop")
    made.message("user", {"type": "subtask", "prompt": "look", "description": "d", "agent": "a"})
    made.message("assistant", text(""), text("seen"), finish="stop")
    events, problems, seen = made.read()
    assert told(events) == [
        ("user", "do it"),
        ("notice", "synthetic"),
        ("notice", "attachment"),
        ("notice", "agent"),
        ("thinking", "hm"),
        ("assistant", "first"),
        ("assistant", "second"),
        ("tool_progress", ""),
        ("tool_summary", "ok"),
        ("assistant", "third"),
        ("notice", "patch"),
        ("error", "retry"),
        ("notice", "unknown_record"),
        ("tool_progress", ""),
        ("tool_summary", "error"),
        ("tool_progress", ""),
        ("tool_summary", "interrupted"),
        ("assistant", "done"),
        ("notice", "compaction"),
        ("notice", "compaction"),
        ("user", "look"),
        ("assistant", "seen"),
    ]
    assert problems == [] and (seen.turns, seen.last_complete) == (2, 2)
    said = [e.origin.record_id.rsplit(":", 1)[1] for e in events if e.origin and e.kind in SAID]
    assert said == ["0", "0", "0.1", "1", "0", "0"]  # as the live driver counts its blocks
    assert events[8].body["exit"] == 3 and events[14].body["output"] == "no such file"
    assert "AAAA" not in json.dumps([e.body for e in events])


def test_a_call_named_by_a_counter_is_not_taken_for_another(tmp_path: Path) -> None:
    made = Made(str(tmp_path))
    made.message("user", text("a"))
    made.message("assistant", tool("call_1", "completed", output="one"), text("x"), finish="stop")
    made.message("user", text("b"))
    made.message("assistant", tool("call_1", "completed", output="two"), text("y"), finish="stop")
    events, problems, _ = made.read()
    origins = [event.origin for event in events]
    assert None not in origins and len(set(origins)) == len(origins) and problems == []


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"parts": [], "time": {"created": 1}}, "no_reply"),
        ({"parts": [text("half")], "time": {"created": 1}}, "turn_unfinished"),
        ({"parts": [tool("call_12345678", "completed")], "finish": "tool-calls"}, "turn_unfinished"),
        ({"parts": [text("x"), tool("call_12345678", "pending")], "time": {"created": 1}}, "dangling_call"),
        ({"parts": [], "error": {"name": "APIError", "data": {"message": "no"}}}, "ended_in_api_error"),
        (
            {"parts": [text("x")], "error": {"name": "MessageAbortedError", "data": {"message": "stop"}}},
            "interrupted_on_purpose",
        ),
    ],
)
def test_how_the_last_turn_ended(tmp_path: Path, message: Any, code: str | None) -> None:
    made = Made(str(tmp_path))
    made.message("user", text("a"))
    made.message("assistant", text("fine"), finish="stop")
    made.message("user", text("b"))
    made.message("assistant", *message.pop("parts"), **message)
    _, problems, seen = made.read()
    assert problems == [code] and not seen.sound and (seen.turns, seen.last_complete) == (2, 1)


def test_a_turn_with_an_open_call_is_not_complete(tmp_path: Path) -> None:
    made = Made(str(tmp_path))
    made.message("user", text("a"))
    made.message("assistant", tool("call_12345678", "running"), text("fine"), finish="stop")
    _, problems, seen = made.read()
    assert problems == ["dangling_call"] and seen.last_complete is None


def test_a_gap_in_the_event_log(tmp_path: Path) -> None:
    shutil.copytree(os.path.join(FIXTURES, "tool_call"), tmp_path, dirs_exist_ok=True)
    db = apsw.Connection(str(tmp_path / "opencode.db"))
    db.execute("delete from event where seq = 7")
    db.close()
    reader = OpenCodeReader()
    (place,) = reader.find(str(tmp_path), SESSION)
    assert [problem.code for problem in reader.inspect(place).problems] == ["ordinal_gap"]


def test_sessions_of_subagents_are_found_but_not_listed(tmp_path: Path) -> None:
    made = Made(str(tmp_path))
    made.db.execute(
        "create temp table s as select * from session; update s set id='ses_child', parent_id=?;"
        "insert into session select * from s",
        (SESSION,),
    )
    reader = OpenCodeReader()
    assert [place.native_id for place in reader.sessions(str(tmp_path))] == [SESSION]
    assert [place.native_id for place in reader.find(str(tmp_path), "ses_child")] == ["ses_child"]


def test_what_the_user_took_back_is_marked(tmp_path: Path) -> None:
    made = Made(str(tmp_path))
    made.message("user", text("a"))
    made.message("assistant", text("fine"), finish="stop")
    second = made.message("user", text("b"))
    made.db.execute("update session set revert = ?", (json.dumps({"messageID": second}),))
    events, _, _ = made.read()
    assert told(events)[2:] == [("notice", "reverted"), ("user", "b")]


def test_odd_values_in_every_column(tmp_path: Path) -> None:
    made = Made(str(tmp_path))
    made.message("user", text("a"))
    made.message("assistant", "no json", b"\xff\xfe", "[]", "null", "[" * 5000, '{"type":["x"]}', text("ok"))
    made.message("assistant", '{"type":"tool","callID":7,"state":"x"}', '{"type":"text","text":5}')
    made.message(
        "assistant", '{"type":"text","text":"\\ud83d half"}', '{"type":"tool","state":{"status":[]}}'
    )
    made.message("robot", text("beep"))
    made.db.execute("insert into message values('msg_x', ?, 'late', 'never', x'ff')", (SESSION,))
    made.db.execute("update session set title = x'ff00fe', directory = 7, revert = '[]', time_updated = 'x'")
    events, problems, seen = made.read()
    assert ("assistant", "ok") in told(events) and ("assistant", "\ud83d half") in told(events)
    assert "bad_line" in problems and not seen.sound
    assert len(seen.dangling) == 2


def test_another_database_has_an_unknown_schema(tmp_path: Path) -> None:
    path = str(tmp_path / "opencode.db")
    db = apsw.Connection(path)
    db.execute("create table session(id text); create table other(x)")
    db.close()
    reader = OpenCodeReader()
    (place,) = reader.find(path, "ses_1")
    assert [problem.code for problem in reader.inspect(place).problems] == ["schema_unknown"]
    assert [event.body["code"] for event in reader.events(place)] == ["schema_unknown"]


def test_secrets_are_never_asked_for(tmp_path: Path) -> None:
    from holdfast.agents.opencode import database as module

    shutil.copytree(os.path.join(FIXTURES, "two_sessions"), tmp_path, dirs_exist_ok=True)
    asked: set[str | None] = set()

    def hear(operation: int, table: str | None, column: str | None, *_: str | None) -> int:
        if operation == apsw.SQLITE_READ:
            asked.add(table)
        return apsw.SQLITE_OK

    class Watched(module.OpenCodeDatabase):
        def __init__(self, copy: str):
            super().__init__(copy)
            self.db.authorizer = hear

    from holdfast.agents.opencode import reader as reading

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "OpenCodeDatabase", Watched)
        reader = OpenCodeReader()
        for place in list(reader.sessions(str(tmp_path))):
            assert list(reader.events(place)) and reader.inspect(place).turns
    assert {"session", "message", "part", "event"} <= asked
    assert not asked & {"account", "credential", "control_account", "session_share"}
