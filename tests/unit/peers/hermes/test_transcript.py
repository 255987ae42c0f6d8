"""The reader of Hermes on recorded homes: what was said is told once, and every finding is seen."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.event import NewEvent, check
from holdfast.model.json_codec import encode
from holdfast.peers.hermes.reader import HermesReader
from holdfast.transcripts.reader import SessionRef
from tests.support import paths

FIXTURES = paths.FIXTURES / "history" / "hermes"
CASES = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())
# Words for the conversation itself, beside the findings about its copies.
GENERAL = {"no_reply", "turn_unfinished", "dangling_call", "run_still_open"}
SOUND = {"ok": True, "leave": False, "manual": False}


def expected(case: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((FIXTURES / case / "expected.json").read_text())
    return value


def home(case: str) -> str:
    return str(FIXTURES / case / "hermes-home")


def one(case: str, native_id: str) -> SessionRef:
    places = HermesReader().find(home(case), native_id)
    assert len(places) == 1
    return places[0]


def told(case: str, native_id: str) -> list[NewEvent]:
    return list(HermesReader().events(one(case, native_id)))


def texts(events: list[NewEvent], *kinds: str) -> list[str]:
    return [event.body["text"] for event in events if event.kind in (kinds or ("user", "assistant"))]


SESSIONS = [(case, native_id) for case in CASES for native_id in expected(case)["sessions"]]


@pytest.mark.parametrize(("case", "native_id"), SESSIONS)
def test_every_finding_is_a_problem(case: str, native_id: str) -> None:
    want = expected(case)["sessions"][native_id]
    seen = HermesReader().inspect(one(case, native_id))
    found = {problem.code for problem in seen.problems}
    findings = {finding.lower() for finding in want["findings"]}
    assert findings <= found
    assert found - findings <= GENERAL
    assert all(problem.text for problem in seen.problems)
    encode(seen.problems)
    if want["class"] in SOUND:
        assert seen.sound is SOUND[want["class"]]
    if not seen.sound:
        assert seen.problems


@pytest.mark.parametrize(("case", "native_id"), SESSIONS)
def test_everything_that_was_said_is_told_once(case: str, native_id: str) -> None:
    want = expected(case)["sessions"][native_id]
    after, events = want["after"], told(case, native_id)
    for event in events:
        check(event)
        encode(event.body)
    origins = Counter(event.origin for event in events if event.origin is not None)
    assert all(count == 1 for count in origins.values())
    said = texts(events)
    if "texts" in after:
        assert said == after["texts"]
    if "nothing_lost" in after:
        assert Counter(text.split()[0] for text in said) == after["nothing_lost"]
    if "user_turn" in after:
        assert texts(events, "user").count(after["user_turn"]) == after["user_turn_times"]
        assert len(said) >= after["old_messages_kept"]
    if "assistant_text" in after:
        assert after["assistant_text"] in texts(events, "assistant")
    if type(after.get("messages")) is int and want["class"] != "leave" and case != "duplicate_partials":
        results = [event for event in events if event.kind == "tool_summary"]
        assert len(said) + len(results) == after["messages"]
    if "at_least_messages" in after:
        assert len(said) >= after["at_least_messages"] or "user_turn" in after


@pytest.mark.parametrize("case", CASES)
def test_the_sessions_of_a_home_are_listed(case: str) -> None:
    want = expected(case)
    reader = HermesReader()
    listed = {place.native_id: place for place in reader.sessions(home(case))}
    for native_id, session in want["sessions"].items():
        assert (native_id in listed) is ("DELETED_TOMBSTONE" not in session["findings"])
    assert "foreign_list" not in listed


@pytest.mark.parametrize("case", CASES)
def test_reading_changes_nothing(case: str) -> None:
    def state() -> dict[str, Any]:
        found = {}
        for folder, _, names in os.walk(FIXTURES / case):
            for name in names:
                path = os.path.join(folder, name)
                what = os.stat(path)
                data = Path(path).read_bytes()
                found[path] = (what.st_mtime_ns, what.st_ino, hashlib.sha256(data).hexdigest())
        return found

    before = state()
    reader = HermesReader()
    for place in reader.sessions(home(case)):
        list(reader.events(place))
        reader.inspect(place)
        reader.owners(home(case), place)
        reader.tools(home(case), place)
    assert state() == before


def test_calls_results_and_thoughts_of_a_row() -> None:
    events = told("missing_sidecar_state_db", "dbonly0001")
    assert [event.kind for event in events[:5]] == [
        "user",
        "thinking",
        "assistant",
        "tool_progress",
        "tool_summary",
    ]
    assert events[3].body == {"call": "call_1", "name": "terminal", "input": {"cmd": "ls"}}
    assert events[4].body == {"call": "call_1", "name": "terminal", "outcome": "ok", "output": "file1\nfile2"}
    assert events[0].origin is not None and events[0].origin.record_id == "row:5"
    assert events[4].at == "2025-06-15T15:06:41.500000Z"
    place = one("missing_sidecar_state_db", "dbonly0001")
    assert (place.title, place.cwd) == ("Only in state.db", "/home/u/proj/.worktrees/hermes-1234")
    seen = HermesReader().inspect(place)
    assert (seen.turns, seen.last_complete, seen.dangling) == (3, 3, [])


def test_structured_content_is_text_without_its_mark() -> None:
    assert texts(told("missing_sidecar_multimodal", "img0001")) == ["look at this\n[image_url]", "nice"]


def test_what_a_dead_run_had_told_stands_behind_its_prompt() -> None:
    events = told("stale_stream_run_journal_partial", "stale0004")[4:]
    assert [event.kind for event in events] == [
        "user",
        "thinking",
        "assistant",
        "tool_progress",
        "tool_summary",
        "assistant",
    ]
    assert events[3].body == {"call": "t1", "name": "terminal", "input": {"cmd": "ls -la"}}
    assert events[5].body == {"text": " and then", "partial": True}
    seen = HermesReader().inspect(one("stale_stream_run_journal_partial", "stale0004"))
    assert (seen.turns, seen.last_complete) == (3, 2)


def test_a_lost_prompt_is_told() -> None:
    events = told("turn_journal_pending_only", "tj0001")
    assert events[-1].body == {"text": "lost prompt"}
    assert events[-1].origin is not None and "20250615T000000Z" in events[-1].origin.record_id


def test_a_clear_an_undo_and_a_delete_stay_so() -> None:
    for case, native_id, code in (
        ("intentional_clear", "clr0001", "cleared"),
        ("intentional_undo", "undo0001", "undone"),
        ("orphan_bak_tombstoned", "orph0005", "deleted"),
    ):
        marks = [event for event in told(case, native_id) if event.kind == "notice"]
        assert [event.body["code"] for event in marks] == [code]


def test_an_orphan_result_is_told_as_one() -> None:
    events = told("orphan_tool_row", "7001000a0001")
    orphan = events[4]
    assert (orphan.kind, orphan.body["call"], orphan.body["name"]) == (
        "tool_summary",
        "call_gone",
        "terminal",
    )


def test_find_by_path_and_by_cwd() -> None:
    reader = HermesReader()
    path = FIXTURES / "clean/hermes-home/webui/sessions/clean0001.json"
    assert [place.native_id for place in reader.find("/nowhere", str(path))] == ["clean0001"]
    bak = FIXTURES / "wiped_1558/hermes-home/webui/sessions/wiped0001.json.bak"
    assert len(texts(list(reader.events(reader.find("/nowhere", str(bak))[0])))) == 40
    db = FIXTURES / "missing_sidecar_state_db/hermes-home/state.db"
    assert {p.native_id for p in reader.find("/nowhere", str(db))} == {"keep0001", "dbonly0001"}
    for root in ("", "webui", "webui/sessions", "state.db"):
        found = reader.find(str(FIXTURES / "missing_sidecar_state_db/hermes-home" / root), "dbonly0001")
        assert len(found) == 1
    folder = home("missing_sidecar_state_db")
    by_cwd = list(reader.sessions(folder, cwd="/home/u/proj/.worktrees/hermes-1234"))
    assert [place.native_id for place in by_cwd] == ["dbonly0001"]
    assert reader.find(folder, "nobody") == [] and reader.find("/nowhere", "../x") == []


def test_the_files_of_a_session_are_its_own() -> None:
    reader = HermesReader()
    files = reader.files(one("stale_stream_run_journal_partial", "stale0004"))
    assert [os.path.basename(path) for path in files] == [
        "stale0004.json",
        "stale0004~27192.jsonl",
        "deadbeefdeadbeefdeadbeefdeadbeef.jsonl",
    ]
    assert reader.files(one("missing_sidecar_state_db", "dbonly0001")) == []


def test_the_root_is_the_home_of_hermes() -> None:
    reader = HermesReader()
    assert reader.root({"HERMES_HOME": "/h", "HOME": "/x"}) == "/h"
    assert reader.root({"HOME": "/x"}) == "/x/.hermes"


def test_a_session_that_is_nowhere() -> None:
    place = SessionRef(agent="hermes", native_id="none", path=home("clean"))
    seen = HermesReader().inspect(place)
    assert ([p.code for p in seen.problems], seen.sound) == (["no_transcript"], False)
    assert list(HermesReader().events(place)) == []
