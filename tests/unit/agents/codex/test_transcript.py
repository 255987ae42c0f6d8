"""Codex's own history: recordings of the real 0.166.0, and records made up by the rules of the format."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.codex import reader as match
from holdfast.agents.codex.driver import CodexDriver
from holdfast.agents.codex.reader import CodexReader
from holdfast.agents.driver import AgentJob
from holdfast.model.event import NewEvent
from holdfast.transcripts.reader import Inspection
from tests.support import transcript_cases as history_cases
from tests.support.transcript_cases import FIXTURES

READER = CodexReader()
ID = "01a1e13c-c4a2-78b0-a448-db3e78971949"
OTHER = "01a1e13c-0000-78b0-a448-db3e78971949"
AT = "2026-11-15T22:03:38.639Z"


def recorded(case: str) -> str:
    folder = os.path.join(FIXTURES, "codex", case)
    (name,) = [name for name in os.listdir(folder) if name.startswith("rollout")]
    return os.path.join(folder, name)


def read(path: str) -> tuple[Inspection, list[NewEvent]]:
    (place,) = READER.find("", path)
    return READER.inspect(place), list(READER.events(place))


class Rollout:
    """A rollout that is written record by record."""

    def __init__(self, folder: Path):
        self.path = str(folder / f"rollout-2026-11-15T22-03-38-{ID}.jsonl")
        self.lines: list[str] = []
        self.add("session_meta", id=ID, cwd="/home/dev/proj")

    def add(self, kind: str, **payload: Any) -> None:
        self.lines.append(json.dumps({"timestamp": AT, "type": kind, "payload": payload}))

    def item(self, type: str, **fields: Any) -> None:
        self.add("response_item", type=type, **fields)

    def event(self, type: str, **fields: Any) -> None:
        self.add("event_msg", type=type, **fields)

    def user(self, text: str, **fields: Any) -> None:
        self.item("message", role="user", content=[{"type": "input_text", "text": text}], **fields)

    def assistant(self, text: str, **fields: Any) -> None:
        self.item("message", role="assistant", content=[{"type": "output_text", "text": text}], **fields)

    def call(self, id: str, cmd: str = "true") -> None:
        self.item("function_call", name="exec_command", arguments=json.dumps({"cmd": cmd}), call_id=id)

    def output(self, id: str, text: Any = "fine") -> None:
        self.item("function_call_output", call_id=id, output=text)

    def completed(self, type: str, **fields: Any) -> None:
        self.event("item_completed", item={"type": type, **fields})

    def read(self) -> tuple[Inspection, list[NewEvent]]:
        Path(self.path).write_text("".join(line + "\n" for line in self.lines))
        return read(self.path)


@pytest.fixture
def rollout(tmp_path: Path) -> Rollout:
    return Rollout(tmp_path)


def told(events: list[NewEvent]) -> list[str]:
    """Events in few words."""
    return [_told(event) for event in events]


def _told(event: NewEvent) -> str:
    body = event.body
    if event.kind == "tool_progress":
        return f"begin {body['call']} {body['name']} {json.dumps(body['input'])}"
    if event.kind == "tool_summary":
        code = f" {body['exit_code']}" if "exit_code" in body else ""
        return f"end {body['call']} {body['outcome']}{code} {body['output'][:20]}".rstrip()
    if event.kind in ("notice", "error"):
        return f"{event.kind} {body['code']}"
    return f"{event.kind} {body['text']}"


def codes(found: Inspection) -> list[str]:
    return [problem.code for problem in found.problems]


@pytest.mark.parametrize("case", history_cases.cases("codex", "rollout"))
def test_recordings_are_what_is_true_about_them(case: str) -> None:
    truth = history_cases.expected("codex", case)
    path = recorded(case)
    (place,) = READER.find("", path)
    found, events = read(path)
    history_cases.check(READER, found, events, truth)
    assert place.native_id == truth.get("session_id", place.native_id)
    if "cwd" in truth:
        assert place.cwd == found.cwd == truth["cwd"]
    assert all(event.at is not None for event in events if event.kind not in history_cases.MARKERS)


def test_a_failed_turn_is_told_by_its_end() -> None:
    found, events = read(recorded("failed_turn"))
    assert (found.turns, found.last_complete, codes(found)) == (3, 2, ["ended_in_api_error"])
    assert told(events)[-2:] == ['user broken <<[{"status":500}]>>', "error agent_error"]
    assert told(events)[1:4] == [
        "thinking I ponder.",
        "assistant Now a failing one.",
        'begin call_c97aa5e0c4e24957a4a20d83 exec_command {"cmd": "echo out; exit 3"}',
    ]
    ends = {
        e.body["call"][-4:]: (e.body["outcome"], e.body.get("exit_code"))
        for e in events
        if "outcome" in e.body
    }
    assert ends == {"0d83": ("error", 3), "5154": ("error", None), "f140": ("ok", 0), "0206": ("ok", 0)}


def test_both_dialects_in_one_file_say_everything_once() -> None:
    """The first turn as the core 0.137 writes it, the others by 0.166, which goes on in that dialect."""
    found, events = read(recorded("legacy_resumed_then_killed"))
    assert (found.turns, found.last_complete, codes(found)) == (3, 2, ["dangling_call"])
    said = [text for text in told(events) if text.split()[0] in ("user", "assistant", "thinking")]
    assert [text.split(" <<")[0] for text in said] == [
        "user rich",
        "thinking I ponder.",
        "assistant Now a failing one.",
        "assistant And a patch.",
        "assistant All done.",
        "user legacy two",
        "thinking Hmm.",
        "assistant A tool.",
        "assistant Two done.",
        "user legacy three",
        "assistant Slow.",
    ]
    history_cases.check_storable(events)


@pytest.mark.parametrize(
    ("case", "streams"),
    [
        ("tool_call", ["stdout.jsonl"]),
        ("failed_turn", ["stdout1.jsonl", "stdout2.jsonl", "stdout3.jsonl"]),
        (
            "clean_then_crashed_then_resumed",
            ["stdout.turn1.jsonl", "stdout.turn2.jsonl", "stdout.turn3.jsonl"],
        ),
    ],
)
def test_the_stream_and_the_rollout_say_the_same(case: str, streams: list[str]) -> None:
    _, events = read(recorded(case))
    prompts = [event.body["text"] for event in events if event.kind == "user"]
    live: list[NewEvent] = []
    for number, name in enumerate(streams):
        job = AgentJob(
            agent="codex", session="s", task=f"t{number}", prompt=prompts[number], cwd="/", program=("codex",)
        )
        driver = CodexDriver(job)
        with open(os.path.join(FIXTURES, "codex", case, name), "rb") as file:
            for line in file:
                live += [entry for entry in driver.on_line(line).entries if isinstance(entry, NewEvent)]
        live += [entry for entry in driver.on_eof().entries if isinstance(entry, NewEvent)]
    ours = {key for key in match.keys(events) if key is not None}
    theirs = {key for key in match.keys(live) if key is not None}
    # A tool that Codex does not know is refused without an item in the stream.
    assert {key for key in ours - theirs if key[1] != ("tool_progress", "edit")} == set()
    assert theirs - ours == set()
    ends = [(e.body["outcome"], e.body.get("exit_code")) for e in live if e.kind == "tool_summary"]
    kept = [(e.body["outcome"], e.body.get("exit_code")) for e in events if e.kind == "tool_summary"]
    assert [end for end in kept if end != ("error", None)] == ends


def test_context_of_the_harness_is_not_the_users_word(rollout: Rollout) -> None:
    for text in (
        "<environment_context>\n<cwd>/</cwd>\n</environment_context>",
        "<user_instructions>\nbe nice\n</user_instructions>",
        "# AGENTS.md instructions for /home/dev\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>",
        "<skill>\n<name>s</name>\n</skill>",
    ):
        rollout.user(text)
    rollout.user("<environment_context> what does this mark mean?")
    rollout.user("<user_shell_command>\nls\n</user_shell_command>")
    passed = {"content_item_metadata": [{"provenance": {"type": "user"}}]}
    rollout.user("<skill>mine</skill>", internal_chat_message_metadata_passthrough=passed)
    passed = {"content_item_metadata": [{"provenance": {"type": "harness"}}]}
    rollout.user("anything", internal_chat_message_metadata_passthrough=passed)
    rollout.item("message", role="developer", content=[{"type": "input_text", "text": "rules"}])
    found, events = rollout.read()
    assert told(events) == [
        "user <environment_context> what does this mark mean?",
        "notice local_command",
        "user <skill>mine</skill>",
    ]
    assert found.turns == 2


def test_what_only_an_event_says_is_said(rollout: Rollout) -> None:
    """Killed between the event and the item, or the item's line is damaged."""
    rollout.event("task_started")
    rollout.event("user_message", message="hello")
    rollout.event("agent_reasoning", text="hm")
    rollout.completed("AgentMessage", id="m1", content=[{"type": "Text", "text": "one"}])
    rollout.call("c1")
    rollout.output("c1")
    rollout.completed("AgentMessage", id="m2", content=[{"type": "Text", "text": "two"}])
    rollout.assistant("two, with marks that the event leaves out", id="m2")
    rollout.completed("AgentMessage", id="m3", content=[{"type": "Text", "text": "three"}])
    found, events = rollout.read()
    assert told(events) == [
        "user hello",
        "thinking hm",
        "assistant one",
        'begin c1 exec_command {"cmd": "true"}',
        "end c1 ok fine",
        "assistant two, with marks that the event leaves out",
        "assistant three",
    ]
    assert codes(found) == ["turn_unfinished"]


def test_an_event_that_comes_before_its_item_is_the_same_prompt(rollout: Rollout) -> None:
    rollout.event("task_started")
    rollout.event("user_message", message="hello")
    rollout.user("hello")
    rollout.assistant("hi")
    found, events = rollout.read()
    assert (told(events), found.turns) == (["user hello", "assistant hi"], 1)


def test_a_command_that_was_broken_off_is_told_once() -> None:
    _, events = read(recorded("sigint"))
    assert told(events)[2:] == [
        "end call_12c60447d0fa4f10be46dd6d interrupted Wall time: 0.6 secon",
        "notice turn_aborted_note",
        "notice turn_aborted",
    ]


def test_the_same_words_twice_are_two_things(rollout: Rollout) -> None:
    rollout.event("task_started")
    for _ in range(2):
        rollout.user("again")
        rollout.event("user_message", message="again")
    for _ in range(2):
        rollout.event("agent_message", message="ok")
        rollout.assistant("ok")
        rollout.call(f"c{len(rollout.lines)}")
    found, events = rollout.read()
    assert [text for text in told(events) if "begin" not in text and "end" not in text] == [
        "user again",
        "user again",
        "assistant ok",
        "assistant ok",
    ]
    assert found.turns == 1  # the second prompt was put into the turn of the first


def test_all_kinds_of_calls(rollout: Rollout) -> None:
    rollout.event("task_started")
    rollout.user("go")
    rollout.item("custom_tool_call", name="apply_patch", call_id="p", input="*** Begin Patch")
    rollout.event("patch_apply_end", call_id="p", success=False, stdout="", stderr="no")
    rollout.item("custom_tool_call_output", call_id="p", output="done")
    rollout.item(
        "local_shell_call", call_id="l", action={"type": "exec", "command": ["ls"]}, status="completed"
    )
    rollout.item("function_call_output", call_id="l", output={"content": "x", "success": False})
    rollout.item("web_search_call", id="w", status="completed", action={"type": "search", "query": "q"})
    rollout.item("image_generation_call", id="i", status="completed", revised_prompt="cat", result="A" * 99)
    rollout.item("function_call", name="mcp__s__t", arguments="not json", call_id="m")
    rollout.event("mcp_tool_call_end", call_id="m", result={"Ok": {"content": [], "isError": True}})
    rollout.item(
        "function_call_output",
        call_id="m",
        output=[{"type": "input_text", "text": "a"}, {"type": "input_image"}],
    )
    rollout.item("function_call", name="shell", arguments='{"command":["false"]}', call_id="s")
    rollout.output("s", json.dumps({"output": "x", "metadata": {"exit_code": 1}}))
    found, events = rollout.read()
    assert told(events)[1:] == [
        'begin p apply_patch "*** Begin Patch"',
        "end p error done",
        'begin l local_shell {"type": "exec", "command": ["ls"]}',
        "end l error x",
        'begin w web_search {"query": "q", "action": {"type": "search", "query": "q"}}',
        "end w ok",
        'begin i image_generation {"prompt": "cat"}',
        "end i ok",
        'begin m mcp__s__t "not json"',
        "end m error a\n[input_image]",
        'begin s shell {"command": ["false"]}',
        'end s error 1 {"output": "x", "met',
    ]
    assert found.dangling == []


def test_the_exit_status_is_the_systems_and_comes_before_or_after(rollout: Rollout) -> None:
    rollout.event("task_started")
    rollout.user("go")
    rollout.call("a")
    rollout.completed("CommandExecution", id="a", command=["bash"], status="failed", exit_code=7)
    rollout.output("a", "no code in here")
    rollout.call("b")
    rollout.output("b", "Process running with session ID 5")
    rollout.event("task_complete", last_agent_message="it runs")
    rollout.completed("CommandExecution", id="b", command=["bash"], status="completed", exit_code=0)
    rollout.call("c")
    rollout.completed("CommandExecution", id="c", command=["bash"], exit_code=0, aggregated_output="printed")
    found, events = rollout.read()
    assert told(events)[1:] == [
        'begin a exec_command {"cmd": "true"}',
        "end a error 7 no code in here",
        'begin b exec_command {"cmd": "true"}',
        "end b ok Process running with",
        "notice command_ended",
        'begin c exec_command {"cmd": "true"}',
        "end c ok 0 printed",
    ]
    # The command ended, but the model will be told that it was aborted.
    assert [call["call"] for call in found.dangling] == ["c"]


def test_results_without_calls_and_twice(rollout: Rollout) -> None:
    rollout.event("task_started")
    rollout.user("go")
    rollout.completed("CommandExecution", id="x", command=["bash", "-lc", "ls"], exit_code=0)
    rollout.output("x", "listed")
    rollout.output("y", "from nowhere")
    rollout.call("z")
    rollout.output("z")
    rollout.output("z", "again")
    rollout.lines.append(rollout.lines[-1])
    rollout.assistant("said", id="m")
    rollout.assistant("said", id="m")
    found, events = rollout.read()
    assert told(events)[1:] == [
        'begin x command_execution {"command": "bash -lc ls"}',
        "end x ok 0 listed",
        "end y ok from nowhere",
        'begin z exec_command {"cmd": "true"}',
        "end z ok fine",
        "notice duplicate_result",
        "assistant said",
    ]
    assert set(codes(found)) == {"orphan_result", "duplicate_result", "duplicate_record", "turn_unfinished"}
    assert not found.sound


def test_unknown_records_are_notices(rollout: Rollout) -> None:
    rollout.user("go")
    rollout.add("from_the_future", x=1)
    rollout.event("also_new", y=[1])
    rollout.item("new_item", z={})
    rollout.completed("NewItem", id="1")
    rollout.lines.append('{"no": "type"}')
    rollout.add("compacted", message="summary")
    rollout.assistant("done")
    found, events = rollout.read()
    assert told(events) == ["user go", *["notice unknown_record"] * 5, "notice compacted", "assistant done"]
    assert found.sound and found.problems == []


def test_turns_that_were_taken_back_do_not_count(rollout: Rollout) -> None:
    for text in ("one", "two"):
        rollout.event("task_started")
        rollout.user(text)
        rollout.call(f"call-{text}")
        if text == "one":
            rollout.output("call-one")
            rollout.assistant("answer")
            rollout.event("task_complete", last_agent_message="answer")
    rollout.event("thread_rolled_back", num_turns=1)
    found, events = rollout.read()
    assert (found.turns, found.last_complete, found.dangling, codes(found)) == (1, 1, [], [])
    assert told(events)[-2:] == ["end call-two interrupted The outcome is unkno", "notice rolled_back"]


def test_the_oldest_dialect_has_items_without_anything_around_them(tmp_path: Path) -> None:
    lines = [
        {"id": ID, "timestamp": AT, "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "out"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ho"}]},
    ]
    path = tmp_path / f"rollout-2025-05-07T17-24-21-{ID}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found, events = read(str(path))
    assert told(events) == ["user hi", "begin c shell {}", "end c ok out", "assistant ho"]
    assert (found.sound, found.problems, found.turns, found.last_complete) == (True, [], 1, 1)


def test_ordinals(rollout: Rollout) -> None:
    rollout.user("go")
    rollout.assistant("x")
    lines = [json.loads(line) for line in rollout.lines]
    for ordinals, code in (((0, 1, 2), []), ((0, 2, 3), ["ordinal_gap"]), ((0, 1, 1), ["duplicate_ordinal"])):
        numbered = [{**line, "ordinal": number} for line, number in zip(lines, ordinals, strict=True)]
        rollout.lines = [json.dumps(line) for line in numbered]
        found, _ = rollout.read()
        assert codes(found) == code
        assert found.sound == (code != ["ordinal_gap"])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ["empty"]),
        (b"\n\n", ["empty"]),
        (b"rubbish\n", ["bad_header", "bad_line", "no_messages"]),
        (b"\0\0\0\0", ["bad_header", "nul_tail", "no_messages"]),
    ],
)
def test_files_with_nothing_in_them(tmp_path: Path, content: bytes, expected: list[str]) -> None:
    path = tmp_path / f"rollout-2026-11-15T22-03-38-{ID}.jsonl"
    path.write_bytes(content)
    found, _ = read(str(path))
    assert codes(found) == expected and not found.sound


def test_a_file_that_says_it_is_another(rollout: Rollout) -> None:
    rollout.path = rollout.path.replace(ID, OTHER)
    rollout.user("go")
    rollout.assistant("x")
    assert codes(rollout.read()[0]) == ["session_id_mismatch"]


def test_sessions_are_found_by_id_path_and_folder(tmp_path: Path) -> None:
    assert READER.root({"HOME": "/home/dev"}) == "/home/dev/.codex"
    assert READER.root({"HOME": "/home/dev", "CODEX_HOME": "/else"}) == "/else"
    day, archive = tmp_path / "sessions" / "2026" / "11" / "15", tmp_path / "archived_sessions"
    day.mkdir(parents=True)
    archive.mkdir()
    first, second = Rollout(day), Rollout(archive)
    second.path = second.path.replace(ID, OTHER)
    second.lines[0] = second.lines[0].replace(ID, OTHER)
    for made in (first, second):
        made.user("Prompt\nwith more")
        made.add("turn_context", cwd="/first")
        made.assistant("x")
        made.add("turn_context", cwd=f"/last-{len(made.path)}")
        made.assistant("y" * 200_000)
        made.read()
    (place,) = READER.find(str(tmp_path), ID.upper())
    assert (place.path, place.native_id, place.title) == (first.path, ID, "Prompt")
    assert place.cwd == f"/last-{len(first.path)}" and place.updated_at == "2026-11-15T22:03:38.639000Z"
    (archived,) = READER.find(str(tmp_path), OTHER)
    assert archived.form == "archived"
    assert [found.native_id for found in READER.sessions(str(tmp_path))] == [ID, OTHER]
    assert [found.native_id for found in READER.sessions(str(tmp_path), cwd=place.cwd + "/")] == [ID]
    assert list(READER.sessions(str(tmp_path), cwd="/first")) == []
    assert READER.find(str(tmp_path), "no-uuid") == READER.find(str(tmp_path / "gone"), ID) == []
    assert [found.native_id for found in READER.find("", str(tmp_path))] == [ID, OTHER]
    assert READER.files(place) == [first.path]
    assert READER.inspect(place).sound
    os.rename(second.path, second.path.replace(OTHER, ID))
    assert [len(READER.find(str(tmp_path), ID)), "multiple_files" in codes(READER.inspect(place))] == [
        2,
        True,
    ]
    os.unlink(first.path)
    assert codes(READER.inspect(place))[0] == "no_transcript"
    assert told(list(READER.events(place))) == ["notice store_damaged"]


def test_a_compressed_rollout_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / f"rollout-2026-11-15T22-03-38-{ID}.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd rubbish")
    found, events = read(str(path))
    assert codes(found)[0] in ("compressed", "store_damaged") and not found.sound
    assert told(events) == ["notice store_damaged"]


def test_who_holds_the_lock(tmp_path: Path, rollout: Rollout) -> None:
    rollout.read()
    (place,) = READER.find("", rollout.path)
    root = tmp_path / "home"
    assert READER.owners(str(root), place) == []
    assert not root.exists()
    lock = root / "thread-writer-locks" / f"{ID}.lock"
    lock.parent.mkdir(parents=True)
    lock.write_bytes(b"")
    before = os.stat(lock)
    assert READER.owners(str(root), place) == []
    holder = "import fcntl,sys; f=open(sys.argv[1]);fcntl.flock(f, 2); print(1, flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdin is not None
    with process:
        process.stdout.readline()
        assert READER.owners(str(root), place) == [process.pid]
        process.stdin.close()
    assert READER.owners(str(root), place) == []
    with open(lock) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nothing of ours is left on it
    after = os.stat(lock)
    assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)


def test_what_says_the_same() -> None:
    live = (
        "tool_progress",
        {"name": "command_execution", "input": {"command": "/bin/bash -lc 'echo it'\"'\"'s'"}},
    )
    kept = ("tool_progress", {"name": "exec_command", "input": {"cmd": "echo it's"}})
    older = ("tool_progress", {"name": "shell", "input": {"command": ["bash", "-lc", "echo it's"]}})
    assert (
        match.wording(*live)
        == match.wording(*kept)
        == match.wording(*older)
        == ("tool_progress", "command", "echo it's")
    )
    assert match.wording("tool_progress", {"name": "exec_command", "input": "rubbish"}) is not None
    assert match.wording("tool_summary", {}) is None
    twice = [
        NewEvent("user", {"text": "a"}),
        NewEvent("assistant", {"text": "b"}),
        NewEvent("assistant", {"text": "b "}),
    ]
    assert list(match.keys(twice, turn=4)) == [
        (5, ("user", "a"), 0),
        (5, ("assistant", "b"), 0),
        (5, ("assistant", "b"), 1),
    ]
