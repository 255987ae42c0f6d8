"""Gemini's own history: recordings of the real 0.61.0, and logs made up by the rules of the format."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import timestamps
from holdfast.agents.gemini import reader as settings
from holdfast.agents.gemini.reader import GeminiReader
from holdfast.model.event import NewEvent
from holdfast.transcripts.reader import Inspection
from tests.support import transcript_cases as history_cases
from tests.support.transcript_cases import FIXTURES
from tests.unit.agents.codex.test_transcript import codes, told

READER = GeminiReader()
ID = "de3caa2f-a12e-4cf9-b48c-016a1af7b3f1"
AT = "2026-11-15T22:15:48.803Z"
LATER = "2026-11-15T22:16:00.000Z"
CONTEXT = "<session_context>\n- **Workspace Directories:**\n  - /home/dev/proj\n</session_context>"
HASH = hashlib.sha256(b"/home/dev/proj").hexdigest()


def read(path: str) -> tuple[Inspection, list[NewEvent]]:
    (place,) = READER.find("", path)
    return READER.inspect(place), list(READER.events(place))


def message(id: str, type: str, content: Any, at: str = AT, **more: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": at, "type": type, "content": content, **more}


def call(id: str, output: str | None = "out", status: str = "success", **more: Any) -> dict[str, Any]:
    response = {"id": id, "name": "run", "response": {"output": output}}
    result = [{"functionResponse": response}] if output is not None else None
    return {"id": id, "name": "run", "args": {"a": 1}, "result": result, "status": status, **more}


class Chat:
    """A mutation log that is written record by record."""

    def __init__(self, folder: Path, minute: str = "2026-11-15T22-15", id: str = ID):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = str(folder / f"session-{minute}-{id[:8]}.jsonl")
        self.id = id
        self.records: list[Any] = []
        self.header()
        self.reset()

    def header(self, **more: Any) -> None:
        header = {
            "sessionId": self.id,
            "projectHash": HASH,
            "startTime": AT,
            "lastUpdated": AT,
            "kind": "main",
        }
        self.records.append({**header, **more})

    def reset(self, *messages: dict[str, Any]) -> None:
        context = message("d04923d38bb0f6017037e74183378ef4", "user", [{"text": CONTEXT}])
        self.records.append({"$set": {"messages": [context, *messages], "lastUpdated": LATER}})

    def user(self, id: str, text: str) -> dict[str, Any]:
        self.records.append(message(id, "user", [{"text": text}]))
        return message(id, "user", [{"text": text}], LATER)

    def gemini(self, id: str, text: str, **more: Any) -> dict[str, Any]:
        known = {"thoughts": [], "tokens": {"input": 1}, "model": "m", **more}
        self.records.append(message(id, "gemini", text, **known))
        return message(id, "gemini", [{"text": text}], LATER)

    def result(self, id: str, call: str) -> None:
        part = {"functionResponse": {"id": call, "name": "run", "response": {"output": "out"}}}
        self.records.append(message(id, "user", [part]))

    def read(self) -> tuple[Inspection, list[NewEvent]]:
        lines = [
            record if isinstance(record, bytes) else json.dumps(record).encode() + b"\n"
            for record in self.records
        ]
        Path(self.path).write_bytes(b"".join(lines))
        return read(self.path)


@pytest.fixture
def chat(tmp_path: Path) -> Chat:
    return Chat(tmp_path / "chats")


@pytest.mark.parametrize("case", history_cases.cases("gemini", "session_file"))
def test_recordings_are_what_is_true_about_them(case: str) -> None:
    truth = history_cases.expected("gemini", case)
    folder = os.path.join(FIXTURES, "gemini", case)
    path = os.path.join(folder, truth["session_file"])
    if "recoverable_from_same_file" in truth:
        truth["events"] = truth["recoverable_from_same_file"]["events"]
    found, events = read(path)
    history_cases.check(READER, found, events, truth)
    for name in (truth["session_id"], truth["session_id"][:8]):
        (place,) = READER.find(folder, name)
        assert (place.path, place.native_id) == (path, truth["session_id"])
    assert place.cwd is not None and place.updated_at is not None
    assert all(event.at is not None for event in events if event.kind != "notice")


def test_times_and_calls_survive_the_lossy_rewrite(chat: Chat) -> None:
    first = chat.user("u1", "go")
    chat.gemini("g1", "I will.")
    chat.gemini("g1", "I will.", toolCalls=[call("c1", timestamp=LATER)])
    chat.result("r1", "c1")
    last = chat.gemini("g2", "Done.")
    kept = chat.read()[1]
    assert told(kept) == [
        "user go",
        "assistant I will.",
        'begin c1 run {"a": 1}',
        "end c1 ok out",
        "assistant Done.",
    ]
    chat.header()
    chat.reset()
    chat.records.append({"$set": {"sessionId": ID}})
    asked = message(
        "g1",
        "gemini",
        [{"text": "I will."}, {"functionCall": {"id": "c1", "name": "run", "args": {}}}],
        LATER,
    )
    part = {"functionResponse": {"id": "c1", "name": "run", "response": {"output": "out"}}}
    copied = message("g1_response", "user", [part], LATER)
    chat.reset(first, asked, copied, message("r1", "user", [part], LATER), last)
    found, events = chat.read()
    assert events == kept
    assert (found.sound, found.problems, found.turns, found.last_complete) == (True, [], 1, 1)
    chat.user("u2", "more")
    chat.gemini("g3", "Yes.")
    assert told(chat.read()[1])[-2:] == ["user more", "assistant Yes."]


def test_calls_that_only_the_rewrite_tells(chat: Chat) -> None:
    """The lines before the resume are lost, for instance with the file that they were in."""
    asked = {"functionCall": {"id": "c1", "name": "run", "args": {"a": 1}}}
    open_one = {"functionCall": {"id": "c2", "name": "run", "args": {}}}
    part = {"functionResponse": {"id": "c1", "name": "run", "response": {"error": "no"}}}
    chat.reset(
        message("u1", "user", "go"),
        message("g1", "gemini", [{"text": "hm", "thought": True}, {"text": "I will."}, asked, open_one]),
        message("g1_response", "user", [part]),
    )
    found, events = chat.read()
    assert told(events) == [
        "user go",
        "thinking hm",
        "assistant I will.",
        'begin c1 run {"a": 1}',
        "begin c2 run {}",
        "end c1 error no",
        "end c2 interrupted The outcome is unkno",
    ]
    assert found.dangling == [{"call": "c2", "name": "run", "input": {}}]
    assert codes(found) == ["dangling_call", "turn_unfinished"]


def test_a_rewind_takes_back(chat: Chat) -> None:
    chat.user("u1", "one")
    chat.gemini("g1", "1")
    chat.user("u2", "two")
    chat.gemini("g2", "2")
    chat.records.append({"$rewindTo": "u2"})
    chat.user("u3", "three")
    found, events = chat.read()
    assert told(events) == ["user one", "assistant 1", "user three"]
    assert (found.turns, codes(found)) == (2, ["no_reply"])
    chat.records.append({"$rewindTo": "unknown"})
    found, events = chat.read()
    assert told(events) == ["user one", "assistant 1", "user three", "notice history_wiped"]
    assert found.turns == 0 and "history_wiped" in codes(found)


def test_a_reset_that_nothing_follows_is_a_wipe(chat: Chat) -> None:
    first = chat.user("u1", "precious")
    chat.gemini("g1", "answer")
    chat.header()
    chat.reset()
    found, events = chat.read()
    assert told(events) == ["user precious", "assistant answer", "notice history_wiped"]
    assert codes(found) == ["history_wiped", "resume_destroys_history"]
    chat.user("u2", "after")
    chat.gemini("g2", "it")
    found, events = chat.read()
    assert told(events)[2:] == ["notice history_wiped", "user after", "assistant it"]
    assert (codes(found), found.turns) == (["history_wiped"], 1)
    chat.reset(first)
    assert "history_wiped" in codes(chat.read()[0])


def test_a_summary_is_no_wipe(chat: Chat) -> None:
    for number in range(5):
        chat.user(f"u{number}", f"prompt {number}")
        chat.gemini(f"g{number}", f"answer {number}")
    chat.reset(
        message("s", "user", "<state_snapshot>all of it</state_snapshot>"), message("ok", "gemini", "Got it.")
    )
    found, events = chat.read()
    assert told(events)[-3:] == [
        "notice compacted",
        "user <state_snapshot>all of it</state_snapshot>",
        "assistant Got it.",
    ]
    assert len(events) == 13 and (found.sound, found.problems, found.turns) == (True, [], 1)


def test_a_torn_line_and_the_header_glued_to_it(chat: Chat) -> None:
    chat.user("u1", "one")
    chat.gemini("g1", "1")
    chat.records.append(b'{"id":"g2","timestamp":"2026-11-15T22:15:48.958Z","toolCalls":[{"id":"c"}')
    assert codes(chat.read()[0]) == ["torn_tail"]
    chat.header()
    chat.user("u2", "two")
    chat.gemini("g2", "[The previous response was interrupted before it completed.]")
    found, events = chat.read()
    assert told(events) == [
        "user one",
        "assistant 1",
        "notice bad_line",
        "user two",
        "notice synthetic_reply",
    ]
    assert set(codes(found)) == {"glued_lines", "bad_line", "no_reply"} and not found.sound


def test_two_records_in_one_line_are_both_read(chat: Chat) -> None:
    chat.user("u1", "one")
    chat.records[-1] = json.dumps(chat.records[-1]).encode()
    chat.gemini("g1", "1")
    found, events = chat.read()
    assert told(events) == ["user one", "assistant 1"]
    assert codes(found) == ["glued_lines"]


def test_how_calls_ended(chat: Chat) -> None:
    chat.user("u", "go")
    chat.gemini(
        "g",
        "",
        thoughts=[{"subject": "Plan", "description": "do it"}, {"subject": "Then", "description": "stop"}],
        toolCalls=[
            call("a", "fine"),
            call("b", "bad", "error"),
            call("c", None, "cancelled", resultDisplay="stopped"),
            call("d", None, "executing"),
            call("e", None, "", result="text"),
        ],
    )
    chat.result("r", "lost")
    found, events = chat.read()
    assert told(events)[1] == "thinking **Plan**\ndo it**Then**\nstop"  # as Gemini streams them
    assert [text for text in told(events) if text.startswith("end")] == [
        "end a ok fine",
        "end b error bad",
        "end c interrupted stopped",
        "end e ok text",
        "end lost ok out",
        "end d interrupted The outcome is unkno",
    ]
    assert [entry["call"] for entry in found.dangling] == ["d"]
    assert codes(found) == ["dangling_call", "orphan_result", "turn_unfinished"]
    assert [e.origin.record_id for e in events if e.kind == "tool_progress" and e.origin][:2] == [
        "call:a",
        "call:b",
    ]


def test_a_turn_that_ends_in_a_call_has_no_answer(chat: Chat) -> None:
    chat.user("u", "go")
    chat.gemini("g", "I will.", toolCalls=[call("c")])
    found, _ = chat.read()
    assert (codes(found), found.last_complete) == (["turn_unfinished"], None)


def test_calls_that_acp_adds_to_one_message_are_told_where_they_were_added(chat: Chat) -> None:
    chat.user("u", "go")
    chat.gemini("g1", "First.")
    chat.gemini("m", "", toolCalls=[call("c1")])
    chat.result("r1", "c1")
    chat.gemini("g2", "Second.")
    chat.gemini("m", "", toolCalls=[call("c1"), call("c2", at=LATER)])
    found, events = chat.read()
    assert [word.split()[0] for word in told(events)] == ["user"] + ["assistant", "begin", "end"] * 2
    assert (codes(found), found.last_complete) == (["turn_unfinished"], None), "no answer after c2"
    chat.gemini("m", "", toolCalls=[call("c1"), call("c2"), call("c3")])
    chat.result("r2", "c2")
    chat.gemini("g3", "Third.")
    found, events = chat.read()
    words = [event.body.get("text") or event.body["call"] for event in events]
    assert words == ["go", "First.", "c1", "c1", "Second.", "c2", "c2", "c3", "c3", "Third."]
    assert (codes(found), found.last_complete) == ([], 1)


def test_a_project_of_another_folder_is_not_the_sessions(tmp_path: Path) -> None:
    home, chats = gemini_home(tmp_path, None)
    (home / "projects.json").write_text(json.dumps({"projects": {"/home/dev/other": "proj"}}))
    chat = Chat(chats)
    chat.records[1]["$set"]["messages"][0]["content"] = CONTEXT.replace("/home/dev/proj", "/somewhere/else")
    chat.user("u", "go")
    assert chat.read()[0].cwd is None


def test_words_of_the_program_are_notices(chat: Chat) -> None:
    chat.records.append(message("i", "info", "update available"))
    chat.records.append(message("w", "warning", "careful"))
    chat.records.append(message("n", "newer", "?"))
    chat.records.append({"neither": 1})
    chat.user("u", "go")
    chat.records.append(message("e", "error", "[API Error: 500]"))
    found, events = chat.read()
    assert told(events) == [
        "notice agent_info",
        "notice agent_warning",
        "notice unknown_record",
        "notice unknown_record",
        "user go",
        "error agent_error",
    ]
    assert codes(found) == ["ended_in_api_error"] and found.sound


def test_the_file_of_before_the_log(tmp_path: Path) -> None:
    path = tmp_path / f"session-2025-09-15T22-15-{ID[:8]}.json"
    messages = [
        message("u", "user", "hi"),
        message("g", "gemini", "ho", toolCalls=[call("c")]),
        message("h", "gemini", "so"),
    ]
    path.write_text(json.dumps({"sessionId": ID, "projectHash": HASH, "messages": messages}, indent=2))
    found, events = read(str(path))
    assert told(events) == ["user hi", "assistant ho", 'begin c run {"a": 1}', "end c ok out", "assistant so"]
    assert found.sound and found.native_id == ID


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ["empty"]),
        (b"rubbish\n", ["bad_header", "bad_line", "no_messages"]),
        (b"\0\0", ["bad_header", "nul_tail", "no_messages"]),
    ],
)
def test_files_with_nothing_in_them(tmp_path: Path, content: bytes, expected: list[str]) -> None:
    path = tmp_path / f"session-2026-11-15T22-15-{ID[:8]}.jsonl"
    path.write_bytes(content)
    found, _ = read(str(path))
    assert codes(found) == expected and not found.sound


def test_another_sessions_header(chat: Chat) -> None:
    chat.user("u", "go")
    chat.gemini("g", "1")
    chat.header(sessionId="00000000-a12e-4cf9-b48c-016a1af7b3f1")
    assert codes(chat.read()[0]) == ["session_id_mismatch"]


def gemini_home(tmp_path: Path, retention: bool | None) -> tuple[Path, Path]:
    home = tmp_path / ".gemini"
    chats = home / "tmp" / "proj" / "chats"
    chats.mkdir(parents=True)
    if retention is not None:
        text = json.dumps({"general": {"sessionRetention": {"enabled": retention}}})
        (home / "settings.json").write_text(
            '// a comment with a " in it\n' + text.replace("{", "{ /* x */", 1)
        )
    return home, chats


def test_sessions_are_found_by_id_digits_path_and_project(tmp_path: Path) -> None:
    assert READER.root({"HOME": "/home/dev"}) == "/home/dev/.gemini"
    assert READER.root({"HOME": "/home/dev", "GEMINI_CLI_HOME": "/else"}) == "/else/.gemini"
    home, chats = gemini_home(tmp_path, None)
    chat, orphan = Chat(chats), Chat(chats, "2026-11-15T22-20")
    other = Chat(chats, id="11111111-a12e-4cf9-b48c-016a1af7b3f1")
    for made in (chat, other):
        made.user("u", "hello\nworld")
        made.gemini("g", "1")
    for made in (chat, orphan, other):
        made.read()
    for name in (ID, ID[:8]):
        (place,) = READER.find(str(home), name)
        assert (place.path, place.native_id, place.title) == (chat.path, ID, "hello")
    assert place.cwd == "/home/dev/proj"  # as the session itself says; the sum of it agrees
    (home / "projects.json").write_text(json.dumps({"projects": {"/home/dev/proj": "proj", "/x": "y"}}))
    assert READER.find(str(home), ID)[0].cwd == "/home/dev/proj"
    (home / "tmp" / "proj" / ".project_root").write_text("/home/dev/moved\n")
    assert READER.find(str(home), ID)[0].cwd == "/home/dev/moved"
    assert {found.native_id for found in READER.sessions(str(home))} == {ID, other.id}
    assert {found.native_id for found in READER.sessions(str(home), "/home/dev/moved")} == {ID, other.id}
    assert list(READER.sessions(str(home), "/home/dev/proj")) == []
    assert [found.path for found in READER.find("", str(home))] == [other.path, chat.path]
    assert READER.find(str(home), "22222222") == READER.find(str(tmp_path / "gone"), ID) == []
    deep = chats / ID / "sub.jsonl"
    deep.parent.mkdir()
    deep.write_text("{}\n")
    assert READER.files(place) == [chat.path, orphan.path, str(deep)]
    assert READER.owners(str(home), place) == READER.tools(str(home), place) == []


@pytest.mark.parametrize(("retention", "is_sound"), [(None, False), (True, False), (False, True)])
def test_files_that_share_their_digits(tmp_path: Path, retention: bool | None, is_sound: bool) -> None:
    _, chats = gemini_home(tmp_path, retention)
    chat = Chat(chats)
    chat.user("u", "hello")
    chat.gemini("g", "1")
    assert chat.read()[0].problems == []
    Chat(chats, "2026-11-15T22-20").read()
    found, _ = chat.read()
    dangers = [
        problem.evidence["how"] for problem in found.problems if problem.code == "resume_destroys_history"
    ]
    assert (found.sound, dangers) == (is_sound, [] if is_sound else ["orphan_files"])
    assert codes(found)[0] == "multiple_files"
    rival = Chat(chats, "2026-11-15T22-25")
    rival.user("u", "elsewhere")
    rival.read()
    assert "ambiguous_store" in codes(chat.read()[0])
    assert len(READER.find(str(tmp_path), ID)) == 2


def test_the_minute_in_which_a_load_destroys(tmp_path: Path) -> None:
    while time.time() % 60 > 55:
        time.sleep(1)
    now = timestamps.now()
    chat = Chat(tmp_path / "chats", now[:16].replace(":", "-"))
    chat.user("u", "hello")
    chat.gemini("g", "1")
    found, _ = chat.read()
    assert [problem.evidence["how"] for problem in found.problems] == ["same_minute"] and not found.sound
    assert found.problems[0].evidence["until"] > now


def test_which_settings_count(tmp_path: Path) -> None:
    user, project = tmp_path / "user", tmp_path / "project"
    for folder, enabled in ((user, False), (project, True)):
        folder.mkdir()
        (folder / "settings.json").write_text(
            json.dumps({"general": {"sessionRetention": {"enabled": enabled}}})
        )
    assert settings.keeps(str(user), None)
    assert not settings.keeps(str(user), str(project))
    assert not settings.keeps(None, None)
    (project / "settings.json").write_text("rubbish")
    assert settings.keeps(str(user), str(project))


def test_tools_that_a_dead_gemini_left_behind(tmp_path: Path, chat: Chat) -> None:
    chat.user("u", "go")
    chat.read()
    (place,) = READER.find("", chat.path)
    place = msgspec.structs.replace(place, cwd=str(tmp_path))
    env = {**os.environ, "GEMINI_CLI": "1"}
    process = subprocess.Popen([str(shutil.which("sleep")), "60"], cwd=tmp_path, env=env)
    try:
        assert READER.tools("", place) == [process.pid]
    finally:
        process.kill()
        process.wait()
    assert READER.tools("", place) == []
