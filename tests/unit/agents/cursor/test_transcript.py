"""Cursor's recorded stores: every form gives the events and problems that its expected.json tells."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.cursor.reader import CursorReader, find_problems
from holdfast.agents.cursor.sdk_runs import SdkRun, SdkRunMessage, run_events, runs_with_problems
from holdfast.model.event import check
from holdfast.model.json_codec import encode
from holdfast.transcripts.reader import SessionRef
from tests.support import paths
from tests.support import transcript_cases as history_cases

RECORDED = paths.FIXTURES / "history" / "cursor"
READER = CursorReader()
SDK_CASES = sorted(
    path.parent.name for path in RECORDED.glob("*/expected.json") if path.parent.name != "cursor-home"
)
KINDS = {"tool_call": "tool_progress", "tool_result": "tool_summary"}
COMPLETE, PENDING = "3f2b8c1e-0d4a-4c55-9a77-1b2c3d4e5f60", "9c0ffee0-1111-4222-8333-444455556666"


def expected(case: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((RECORDED / case / "expected.json").read_text())
    return value


def sdk_agents() -> Iterator[tuple[str, str]]:
    for case in SDK_CASES:
        for agent in expected(case)["agents"]:
            yield case, agent


def only(found: list[SessionRef]) -> SessionRef:
    assert len(found) == 1, found
    return found[0]


def place_of(case: str, name: str) -> SessionRef:
    return only(READER.find(str(RECORDED / case), name))


def codes(place: SessionRef) -> list[str]:
    return sorted(problem.code for problem in READER.inspect(place).problems)


@pytest.mark.parametrize(("case", "agent"), list(sdk_agents()))
def test_sdk_store_is_read_as_it_is(case: str, agent: str) -> None:
    told = expected(case)["agents"][agent]
    place = place_of(case, agent)
    assert (place.native_id, place.cwd) == (agent, told["cwd"])
    events = list(READER.events(place))
    assert history_cases.plain(events) == told["events"]
    for event in events:
        check(event)
        encode(event.body)
    seen = READER.inspect(place)
    assert sorted(p.code.upper() for p in seen.problems) == sorted(told["verdict"]["reasons"])
    assert [call["call"] for call in seen.dangling] == told["dangling"]
    wanted = told["holdfast"]
    assert seen.turns == wanted["turns"]
    complete = [number for number, whole in enumerate(wanted["complete_turns"], 1) if whole]
    assert seen.last_complete == (complete[-1] if complete else None)
    assert wanted["sound"] in (None, seen.sound)


@pytest.mark.parametrize(("case", "agent"), list(sdk_agents()))
def test_every_origin_is_there_once(case: str, agent: str) -> None:
    events = list(READER.events(place_of(case, agent)))
    origins = [event.origin for event in events if event.origin is not None]
    assert len(set(origins)) == len(origins)
    for event in events:
        ours = event.kind == "tool_summary" and event.body["outcome"] == "interrupted"
        assert (event.origin is None) == ours
        assert event.origin is None or (event.origin.agent, event.origin.native_id) == ("cursor", agent)


def test_a_dangling_call_ends_after_everything_of_its_turn() -> None:
    events = list(READER.events(place_of("sdk-jsonl-crashed", "agent-47d3413e-2ef1-40ff-a546-944fbb8688f4")))
    assert [event.kind for event in events][-2:] == ["tool_progress", "tool_summary"]
    assert events[-1].body["outcome"] == "interrupted"
    assert events[0].at == "2026-11-15T22:50:54.585000Z"


def test_an_error_is_told_in_its_words() -> None:
    events = list(READER.events(place_of("sdk-jsonl-error", "agent-ae3fad54-ff93-439a-a060-372f8fddcac7")))
    assert events[-1].kind == "error"
    assert events[-1].body == {"text": "[invalid_argument] fake backend failure", "code": "run_error"}


@pytest.mark.parametrize("form", ["cli-acp", "cli-legacy"])
@pytest.mark.parametrize("name", [COMPLETE, PENDING])
def test_cli_store_is_read_as_it_is(form: str, name: str) -> None:
    told = expected("cursor-home")["sessions"][name]
    home = RECORDED / "cursor-home" / ".cursor"
    folder = home / "acp-sessions" if form == "cli-acp" else home / "chats"
    place = only(READER.find(str(folder), name))
    # An older chat does not tell its cwd; a path in it that has the drawer's hash proves it.
    cwd = None if (form, name) == ("cli-legacy", PENDING) else "/workspace/demo"
    assert (place.form, place.cwd, place.title) == (form, cwd, "fixture chat")
    events = list(READER.events(place))
    assert [e.body["text"] for e in events if e.kind == "user"] == told["user_prompts"]
    assert [e.kind for e in events[1:3]] == ["thinking", "assistant"]
    seen = READER.inspect(place)
    assert (seen.sound, seen.turns) == (told["holdfast"]["sound"], told["turns"])
    assert [p.code.upper() for p in seen.problems] == told["verdict"]["reasons"]
    if name == COMPLETE:
        assert [(e.kind, e.body) for e in events[3:]] == [
            (
                "tool_progress",
                {
                    "call": "toolu_fixture_0001",
                    "name": "shell",
                    "input": {"command": "ls", "workingDirectory": "/workspace/demo", "timeout": 30000},
                },
            ),
            (
                "tool_summary",
                {
                    "call": "toolu_fixture_0001",
                    "name": "shell",
                    "outcome": "ok",
                    "output": "README.md\n",
                    "exit_code": 0,
                },
            ),
            ("assistant", {"text": "There is one file: README.md."}),
        ]
        assert seen.last_complete == 1
    else:
        assert [e.kind for e in events[3:]] == ["tool_progress", "tool_summary"]
        assert events[-1].body["outcome"] == "interrupted"
        assert [(call["call"], call["input"]) for call in seen.dangling] == [
            ("toolu_fixture_0001", {"command": "ls"})
        ]
        assert seen.last_complete is None


def test_the_acp_store_counts_before_the_older_chat_it_continues() -> None:
    assert place_of("cursor-home", COMPLETE).form == "cli-acp"
    assert READER.find(str(RECORDED / "cursor-home"), "00000000-dead-4000-8000-000000000000") == []


def test_an_older_chat_that_went_on_is_another_candidate(tmp_path: Path) -> None:
    home = copy_of("cursor-home", tmp_path)
    acp = home / ".cursor" / "acp-sessions" / COMPLETE / "store.db"
    shutil.copy(home / ".cursor" / "acp-sessions" / PENDING / "store.db", acp)
    assert [place.form for place in READER.find(str(home), COMPLETE)] == ["cli-acp", "cli-legacy"]


def test_one_id_in_several_drawers_is_ambiguous(tmp_path: Path) -> None:
    home = copy_of("cursor-home", tmp_path)
    chats = home / ".cursor" / "chats"
    shutil.rmtree(home / ".cursor" / "acp-sessions")
    other = chats / "0123456789abcdef0123456789abcdef" / COMPLETE
    shutil.copytree(chats / "2f108d9d78a2ccf520e99c4d45c05ab0" / COMPLETE, other)
    found = READER.find(str(home), COMPLETE)
    assert [(place.form, place.cwd) for place in found] == [
        ("cli-legacy", None),
        ("cli-legacy", "/workspace/demo"),
    ]
    assert [place.native_id for place in READER.sessions(str(home), "/workspace/demo")] == [COMPLETE, PENDING]


def test_a_store_without_its_meta_json(tmp_path: Path) -> None:
    home = copy_of("cursor-home", tmp_path)
    (home / ".cursor" / "acp-sessions" / COMPLETE / "meta.json").unlink()
    place = only(READER.find(str(home), COMPLETE))
    assert place.form == "cli-acp"
    assert codes(place) == ["no_meta_json"]
    assert len(list(READER.events(place))) == 6


def test_a_store_of_somebody_else(tmp_path: Path) -> None:
    home = copy_of("cursor-home", tmp_path)
    sessions = home / ".cursor" / "acp-sessions"
    (sessions / COMPLETE).rename(sessions / "alien")
    assert codes(only(READER.find(str(home), "alien"))) == ["session_id_mismatch"]


def test_a_transcript_stands_in_only_where_there_is_no_store(tmp_path: Path) -> None:
    home = copy_of("cursor-home", tmp_path)
    shutil.rmtree(home / ".cursor" / "acp-sessions")
    shutil.rmtree(home / ".cursor" / "chats")
    place = only(READER.find(str(home), COMPLETE))
    assert place.form == "transcript"
    kinds = [(event.kind, event.body.get("text")) for event in READER.events(place)]
    assert kinds == [
        ("user", "list the files"),
        ("assistant", "Let me list the files.\n\nI should look at the directory."),
        ("tool_progress", None),
        ("tool_summary", None),
        ("assistant", "There is one file: README.md."),
    ]
    seen = READER.inspect(place)
    assert (seen.sound, seen.turns, seen.last_complete) == (False, 1, 1)
    assert [problem.code for problem in seen.problems] == ["missing_store"]
    cut = only(READER.find(str(home), PENDING))
    assert codes(cut) == ["dangling_call", "missing_store"]
    assert READER.files(cut) == [cut.path]


def test_an_older_transcript_is_plain_text(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "w" / "agent-transcripts"
    folder.mkdir(parents=True)
    (folder / "old.txt").write_text(
        "user:\n<user_query>\nlist\n</user_query>\n\nassistant:\n[Thinking] hm\nassistant:\nLooking.\n"
        "[Tool call] Shell\n  command: ls\n\n[Tool result] Shell\nREADME.md\n\nassistant:\nOne file.\n"
        "[Tool call] Read\n  path: a\n"
    )
    place = only(READER.find(str(tmp_path), "old"))
    events = [
        (event.kind, event.body.get("text", event.body.get("output"))) for event in READER.events(place)
    ]
    assert events == [
        ("user", "list"),
        ("thinking", "hm"),
        ("assistant", "Looking."),
        ("tool_progress", None),
        ("tool_summary", "README.md"),
        ("assistant", "One file."),
        ("tool_progress", None),
        ("tool_summary", "The outcome is unknown: the agent ended before it reported one."),
    ]


@pytest.mark.parametrize(
    ("below", "forms"),
    [
        ("sdk-jsonl", {"sdk-jsonl"}),
        ("sdk-jsonl/run_events.ndjson", {"sdk-jsonl"}),
        ("sdk-sqlite", {"sdk-sqlite", "transcript"}),
        ("sdk-sqlite/.cursor/projects/home-dev-demo/sdk-agent-store", {"sdk-sqlite"}),
        ("sdk-sqlite/.cursor/projects/home-dev-demo/agent-transcripts", {"transcript"}),
        (f"cursor-home/.cursor/acp-sessions/{COMPLETE}", {"cli-acp"}),
        (f"cursor-home/.cursor/acp-sessions/{COMPLETE}/meta.json", {"cli-acp"}),
        (f"cursor-home/.cursor/chats/2f108d9d78a2ccf520e99c4d45c05ab0/{COMPLETE}/store.db", {"cli-legacy"}),
        (f"cursor-home/.cursor/projects/workspace-demo/agent-transcripts/{COMPLETE}", {"transcript"}),
    ],
)
def test_a_session_is_found_by_path(below: str, forms: set[str]) -> None:
    found = READER.find("/nonexistent", str(RECORDED / below))
    assert {place.form for place in found} == forms
    for place in found:
        assert list(READER.events(place))


def test_the_blobs_of_an_sdk_agent_lead_to_its_index(tmp_path: Path) -> None:
    stores = list((RECORDED / "sdk-sqlite").rglob("store.db"))
    place = only(READER.find("/nonexistent", str(stores[0])))
    assert (place.form, place.native_id) == ("sdk-sqlite", "agent-118a3302-f940-4768-b063-96f3d1f97db2")


def test_a_database_under_another_name(tmp_path: Path) -> None:
    source = RECORDED / "cursor-home" / ".cursor" / "acp-sessions" / COMPLETE / "store.db"
    shutil.copy(source, tmp_path / "saved.sqlite")
    place = only(READER.find("/nonexistent", str(tmp_path / "saved.sqlite")))
    assert (place.native_id, READER.inspect(place).sound) == (COMPLETE, True)


def test_the_newer_naming_of_the_sdk_folder(tmp_path: Path) -> None:
    """1.1.0 renames md5(cwd) to sha256(cwd)."""
    home = copy_of("sdk-sqlite", tmp_path)
    store = home / ".cursor" / "projects" / "home-dev-demo" / "sdk-agent-store"
    old = store / "caa990f2469364441262014be4057c2a"
    new = store / "41a5ae3ae72b3bba97a9d3a5fbc4cd5d3ea3cb8b9b4a5a0e0f6c1a4d9b8a7c6d"
    old.rename(new)
    agent = "agent-118a3302-f940-4768-b063-96f3d1f97db2"
    assert READER.inspect(only(READER.find(str(home), agent))).sound
    shutil.copytree(new, old)
    assert [place.form for place in READER.find(str(home), agent)] == ["sdk-sqlite", "sdk-sqlite"]


def test_sessions_of_a_cwd() -> None:
    found = list(READER.sessions(str(RECORDED / "sdk-sqlite"), "/home/dev/demo"))
    assert {(place.native_id, place.form) for place in found} == {
        ("agent-118a3302-f940-4768-b063-96f3d1f97db2", "sdk-sqlite"),
        ("agent-d7927615-88d2-4f2b-85e4-dd6bca6ddcdf", "transcript"),
    }
    assert list(READER.sessions(str(RECORDED), "/somewhere/else")) == []
    everything = {place.native_id for place in READER.sessions(str(RECORDED / "cursor-home"))}
    assert everything == {COMPLETE, PENDING}


def test_where_the_root_is() -> None:
    assert READER.root({"HOME": "/home/u"}) == "/home/u/.cursor"
    assert READER.root({"HOME": "/home/u", "CURSOR_DATA_DIR": "/data"}) == "/data"


def test_a_name_that_is_no_id_never_becomes_a_path() -> None:
    for name in ("../cursor-home", "", ".", "a/b", "a\0b", "é"):
        assert [
            p for p in READER.find(str(RECORDED / "sdk-jsonl"), name) if p.path.endswith("cursor-home")
        ] == []


def test_a_checkpoint_that_is_gone_is_no_ground_for_a_resume(tmp_path: Path) -> None:
    folder = copy_of("sdk-jsonl", tmp_path)
    kept = (folder / "checkpoints.ndjson").read_text().splitlines()[:-1]
    (folder / "checkpoints.ndjson").write_text("".join(line + "\n" for line in kept))
    place = only(READER.find(str(folder), "agent-d7927615-88d2-4f2b-85e4-dd6bca6ddcdf"))
    assert set(codes(place)) == {"missing_blob"}
    assert len(list(READER.events(place))) == 12


def test_reading_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "all"
    shutil.copytree(RECORDED, root)
    before = state_of(root)
    for place in READER.sessions(str(root)):
        list(READER.events(place))
        READER.inspect(place)
        READER.owners(str(root), place)
        READER.tools(str(root), place)
    assert state_of(root) == before


def test_a_process_that_has_the_store_open_is_an_owner(tmp_path: Path) -> None:
    import subprocess
    import sys

    home = copy_of("cursor-home", tmp_path)
    place = only(READER.find(str(home), COMPLETE))
    assert READER.owners(str(home), place) == []
    script = "import sys; f = open(sys.argv[1], 'ab'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, place.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as held:
        assert held.stdout is not None
        held.stdout.readline()
        assert READER.owners(str(home), place) == [held.pid]
        held.communicate()
    assert READER.owners(str(home), place) == []


# --- runs as values


def told(*messages: dict[str, Any]) -> list[SdkRunMessage]:
    def payload(message: dict[str, Any]) -> dict[str, Any]:
        return {"schemaVersion": 1, "type": "sdk_message", "agentId": "a", "runId": "r", "message": message}

    return [SdkRunMessage(seq=seq, payload=payload(message)) for seq, message in enumerate(messages, 1)]


def say(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, "message": {"role": kind, "content": [{"type": "text", "text": text}]}}


def call(status: str, name: str = "shell", **more: Any) -> dict[str, Any]:
    return {"type": "tool_call", "call_id": "c1", "name": name, "status": status, **more}


def test_runs_follow_each_other_and_each_closes_its_own_calls() -> None:
    runs = [
        (
            SdkRun(id="r1", turn=1, status="CANCELLED"),
            told(say("user", "one"), call("running", args={"command": "x"})),
        ),
        (SdkRun(id="r2", turn=2, status="FINISHED"), told(say("user", "two"), say("assistant", "ok"))),
    ]
    events = list(run_events("a", runs))
    assert [(e.kind, e.body.get("outcome")) for e in events] == [
        ("user", None),
        ("tool_progress", None),
        ("notice", None),
        ("tool_summary", "interrupted"),
        ("user", None),
        ("assistant", None),
    ]


@pytest.mark.parametrize(
    ("result", "status", "outcome", "output"),
    [
        (
            {"status": "success", "value": {"exitCode": 0, "stdout": "a\n", "stderr": ""}},
            "completed",
            "ok",
            "a\n",
        ),
        (
            {"status": "success", "value": {"exitCode": 2, "stdout": "a", "stderr": "b"}},
            "completed",
            "error",
            "a\nb",
        ),
        ({"status": "error", "error": {"message": "timed out"}}, "completed", "error", "timed out"),
        ({"status": "error", "error": "no"}, "completed", "error", "no"),
        (None, "error", "error", ""),
        ({"status": "success", "value": {"content": "text"}}, "completed", "ok", "text"),
        ({"status": "success", "value": {"files": ["a"]}}, "completed", "ok", '{"files":["a"]}'),
        ({"status": "success", "value": {"content": [{"text": {"text": "m"}}]}}, "completed", "ok", "m"),
        ("text", "completed", "ok", "text"),
        ([1], "completed", "ok", "[1]"),
    ],
)
def test_how_a_call_ended(result: Any, status: str, outcome: str, output: str) -> None:
    messages = told(say("user", "x"), call("running", args={}), call(status, result=result))
    events = list(run_events("a", [(SdkRun(id="r", status="FINISHED"), messages)]))
    assert (events[-1].body["outcome"], events[-1].body["output"]) == (outcome, output)


def test_a_call_that_is_told_only_when_it_ends() -> None:
    messages = told(say("user", "x"), call("completed", args={"p": 1}), call("completed"))
    events = list(run_events("a", [(SdkRun(id="r", status="FINISHED"), messages)]))
    assert [event.kind for event in events] == ["user", "tool_progress", "tool_summary"]
    assert events[1].origin != events[2].origin


@pytest.mark.parametrize(
    ("status", "extra", "complete"),
    [
        ("FINISHED", [], 1),
        ("ERROR", [], 1),
        ("RUNNING", [], None),
        ("CANCELLED", [], None),
        ("EXPIRED", [], None),
        ("FINISHED", [call("running", args={})], None),
    ],
)
def test_words_are_an_answer_only_if_nothing_was_cut(
    status: str, extra: list[dict[str, Any]], complete: int | None
) -> None:
    end = [{"type": "status", "status": status}] if status == "FINISHED" else []
    messages = told(say("user", "x"), *extra, say("assistant", "half of it"), *end)
    found = find_problems(runs_with_problems("a", [(SdkRun(id="r", status=status), messages)]), has_runs=True)
    assert (found.turns, found.last_complete) == (1, complete)


@pytest.mark.parametrize("lines", [0, 3, 9, 13, 14, 17, 25, 27, 28])
def test_a_finished_run_whose_log_breaks_off_is_not_complete(tmp_path: Path, lines: int) -> None:
    folder = copy_of("sdk-jsonl", tmp_path)
    path = folder / "run_events.ndjson"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
    found = READER.inspect(only(list(READER.sessions(str(folder)))))
    assert found.sound == (lines == 28)
    assert found.last_complete == (2 if lines == 28 else 1 if lines >= 14 else None)
    unfinished = [problem for problem in found.problems if problem.code == "turn_unfinished"]
    assert len(unfinished) == (0 if lines == 28 else 1 if lines >= 14 else 2)


def test_what_another_agent_lost_is_not_ours(tmp_path: Path) -> None:
    folder = copy_of("sdk-jsonl", tmp_path)
    row = json.loads((folder / "run_events.ndjson").read_text().splitlines()[0])
    row["runId"], row["payload"]["agentId"] = "run-gone", "agent-other"
    with open(folder / "run_events.ndjson", "a") as file:
        file.write(json.dumps(row, separators=(",", ":")) + "\n")
    place = only(READER.find(str(folder), "agent-d7927615-88d2-4f2b-85e4-dd6bca6ddcdf"))
    assert READER.inspect(place).sound


def test_thinking_is_joined_up_to_its_end() -> None:
    pieces = [{"type": "thinking", "text": text} for text in ("a", "b")]
    end = {"type": "thinking", "text": "", "thinking_duration_ms": 3}
    messages = told(say("user", "x"), *pieces, end, {"type": "thinking", "text": "c"}, say("assistant", "d"))
    events = list(run_events("a", [(SdkRun(id="r", status="FINISHED"), messages)]))
    assert [e.body["text"] for e in events] == ["x", "ab", "c", "d"]


def test_halves_of_a_character_are_put_together() -> None:
    messages = told(say("user", "x"), say("assistant", "\ud83d"), say("assistant", "\ude00"))
    events = list(run_events("a", [(SdkRun(id="r", status="FINISHED"), messages)]))
    assert events[-1].body["text"] == "\U0001f600"
    encode(events[-1].body)


def test_what_is_not_known_is_a_notice() -> None:
    odd = told({"type": "hologram", "x": 1}, {"type": "task", "text": "half way"})
    other = SdkRunMessage(seq=3, payload={"schemaVersion": 1, "type": "other"})
    events = list(run_events("a", [(SdkRun(id="r", status="FINISHED"), [*odd, other])]))
    assert [event.body["code"] for event in events] == [
        "no_prompt",
        "unknown_record",
        "task",
        "unknown_record",
    ]


def test_a_prompt_that_the_log_lacks_is_asked_for() -> None:
    messages = told({"type": "status", "status": "RUNNING"}, say("assistant", "hi"))
    runs = [(SdkRun(id="r", status="FINISHED", request="q"), messages)]
    events = list(run_events("a", runs, lambda run: {"q": "the prompt"}.get(run.request or "")))
    assert [(e.kind, e.body["text"]) for e in events] == [("user", "the prompt"), ("assistant", "hi")]


def test_a_prompt_that_the_log_lacks_is_in_the_checkpoint(tmp_path: Path) -> None:
    folder = copy_of("sdk-jsonl", tmp_path)
    lines = (folder / "run_events.ndjson").read_text().splitlines()
    kept = [line for line in lines if '"type":"user"' not in line]
    (folder / "run_events.ndjson").write_text("".join(line + "\n" for line in kept))
    place = only(READER.find(str(folder), "agent-d7927615-88d2-4f2b-85e4-dd6bca6ddcdf"))
    assert [e.body["text"] for e in READER.events(place) if e.kind == "user"] == [
        "list the files",
        "and again",
    ]
    assert set(codes(place)) == {"ordinal_gap"}


def copy_of(case: str, tmp_path: Path) -> Path:
    target = tmp_path / case
    shutil.copytree(RECORDED / case, target)
    return target


def state_of(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and folder below: when it was changed, and what it holds."""
    found = {}
    for path in [root, *root.rglob("*")]:
        content = path.read_bytes() if path.is_file() else repr(sorted(os.listdir(path))).encode()
        found[str(path)] = (path.stat().st_mtime_ns, content)
    return found
