"""The driver of Codex, on recordings of the real 0.166.0 and on made-up lines; and how it is launched."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from holdfast.agents.codex import launch
from holdfast.agents.codex.driver import CodexDriver
from holdfast.agents.driver import AgentJob, Entry, Policy
from holdfast.errors import BadInput
from holdfast.model.changes import SeeToken
from holdfast.model.event import NewEvent
from tests.support.recorded_streams import Recording, Replay

VERSION = "codex-0.166.0"
RESUMED = "notice resumed: the agent resumed conversation 01…"
BEGINS = """
        token codex stream exec-json
        notice agent_warning: Model metadata for `fake-model` n…
        PROMPT"""
OUGHT: dict[str, str] = {
    "text": BEGINS
    + """
        assistant Hi there""",
    "dash": BEGINS
    + """
        assistant not an option""",
    "tools": BEGINS
    + """
        assistant first
        tool_progress #1 command_execution {"command": "/bin/bash -lc 'echo one > f1'"}
        tool_summary #1 command_execution ok(0)
        tool_progress #2 command_execution {"command": "/bin/bash -lc 'cat f1; exit 3'"}
        tool_summary #2 command_execution error(3) one\\n
        assistant done""",
    "parallel": BEGINS
    + """
        tool_progress #1 command_execution {"command": "/bin/bash -lc 'echo a'"}
        tool_summary #1 command_execution ok(0) a\\n
        tool_progress #2 command_execution {"command": "/bin/bash -lc 'echo b'"}
        tool_summary #2 command_execution ok(0) b\\n
        assistant end of script (k=2)""",
    # `touch a` ran in between, failed in the sandbox and is not in the stream.
    "sandbox": BEGINS
    + """
        tool_progress #1 command_execution {"command": "/bin/bash -lc 'echo fine'"}
        tool_summary #1 command_execution ok(0) fine\\n
        tool_progress #2 command_execution {"command": "/bin/bash -lc 'echo x; touch b; exit 5'"}
        tool_summary #2 command_execution error(5) x\\ntouch: cannot touch 'b': Read-…
        assistant could not""",
    "patch": BEGINS
    + """
        tool_progress #1 file_change {"changes": [{"path": "/home/dev/proj/new.txt", "kind": "add"}]}
        tool_summary #1 file_change ok add /home/dev/proj/new.txt
        assistant patched""",
    "api_500": BEGINS
    + """
        error agent_error: We’re currently experiencing high…""",
    "api_429": BEGINS
    + """
        tool_progress #1 command_execution {"command": "/bin/bash -lc 'echo hi'"}
        tool_summary #1 command_execution ok(0) hi\\n
        error agent_error: exceeded retry limit, last status…""",
    "drop": BEGINS
    + """
        error agent_error: stream disconnected before comple…""",
    "resume_2": BEGINS.replace("token codex stream exec-json", RESUMED)
    + """
        tool_progress #1 command_execution {"command": "/bin/bash -lc 'echo again'"}
        tool_summary #1 command_execution ok(0) again\\n
        assistant second""",
    "resume_other": BEGINS.replace(
        "exec-json", "exec-json\n        notice other_conversation: Holdfast asked for conversation n…"
    )
    + """
        assistant first""",
    "sigint": BEGINS
    + """
        tool_progress #1 command_execution {"command": "/bin/bash -lc 'touch started; sleep 20'"}
        tool_summary #1 command_execution interrupted The outcome is unknown: the agent…""",
    "killed": BEGINS
    + """
        tool_progress #1 command_execution {"command": "/bin/bash -lc 'touch started; sleep 5'"}
        tool_summary #1 command_execution interrupted The outcome is unknown: the agent…""",
    "killed_early": """
        token codex stream exec-json""",
    "resume_unknown": "",
    "lock": "",
}
SILENT = {"sigint", "killed", "killed_early", "resume_unknown", "lock"}  # no last word of its own
NOT_TAKEN = {"killed_early", "resume_unknown", "lock"}
FAILED = {"api_500", "api_429", "drop"}


@pytest.mark.parametrize("name", list(OUGHT))
def test_a_recorded_run_gives_exactly_its_events(name: str) -> None:
    recording = Recording(VERSION, name)
    replay = Replay(recording)
    lines = [line.strip() for line in OUGHT[name].split("\n") if line.strip()]
    ought = [line.replace("PROMPT", f"user {recording.job.prompt}") for line in lines]
    told = [line.rstrip() for line in replay.told()]
    if name == "parallel":  # which of two ends first is chance
        told, ought = sorted(_without_numbers(told)), sorted(_without_numbers(ought))
    assert told == ought
    driver = replay.driver
    assert driver.accepted == (name not in NOT_TAKEN) and not driver.open_calls
    assert (driver.final is None) == (name in SILENT)
    if driver.final is not None:
        assert driver.final.ok == (name not in FAILED)
        assert (recording.exit == 0) == driver.final.ok
    else:
        assert recording.exit != 0


def test_the_token_is_the_thread_that_was_begun() -> None:
    replay = Replay(Recording(VERSION, "text"))
    token = replay.entries[0]
    assert isinstance(token, SeeToken) and token.native_id == replay.driver.native_id
    assert replay.driver.final is not None
    assert replay.driver.final.answer == "Hi there"
    assert replay.driver.final.usage["input_tokens"] == 100


def test_a_resumes_usage_is_that_of_the_conversation() -> None:
    """Its count goes on from the turns before: 100 tokens then, 200 now."""
    final = Replay(Recording(VERSION, "resume_2")).driver.final
    assert final is not None and final.usage["conversation"]["input_tokens"] == 300
    assert "input_tokens" not in final.usage


def test_the_items_of_two_processes_never_meet() -> None:
    """`item_0` is in every process; the first resume would lose its events as told before."""
    ids = [set(), set()]  # type: list[set[str]]
    for seen, name in zip(ids, ("tools", "resume_2"), strict=True):
        recording = Recording(VERSION, name)
        for event in Replay(recording).events:
            if event.origin is not None:
                assert recording.job.task in event.origin.record_id
                seen.add(event.origin.record_id)
            if "call" in event.body:
                seen.add(event.body["call"])
    assert ids[0] and ids[1] and not ids[0] & ids[1]


@pytest.mark.parametrize("name", list(OUGHT))
def test_hearing_again_gives_the_same(name: str) -> None:
    recording = Recording(VERSION, name)
    driver = CodexDriver(recording.job)
    entries: list[Entry] = []
    for line in recording.lines:
        entries += driver.on_line(line).entries
    assert entries + driver.on_eof().entries == Replay(recording).entries


# --- lines that no recording has


def _job(permissions: Policy = "allow", resume: bool = False, **more: Any) -> AgentJob:
    job = AgentJob(
        agent="codex",
        session="s0",
        task="t0",
        prompt="hello",
        cwd="/home/dev/proj",
        program=("/opt/codex",),
        permissions=permissions,
        native_id="01a1e267-f865-7122-b25a-dd09a9e6c8b7" if resume else None,
        resume=resume,
    )
    return msgspec.structs.replace(job, **more)


def _item(driver: CodexDriver, item: dict[str, Any], kind: str = "item.completed") -> list[NewEvent]:
    entries = driver.on_line(json.dumps({"type": kind, "item": item}).encode()).entries
    return [entry for entry in entries if isinstance(entry, NewEvent)]


@pytest.mark.parametrize(
    ("item", "ought"),
    [
        (
            {"type": "mcp_tool_call", "server": "s", "tool": "t", "arguments": {"a": 1},
             "status": "completed",
             "result": {"content": [{"type": "text", "text": "x"}, {"type": "image"}]}},
            ("s.t", {"a": 1}, "ok", "x\n[image]"),
        ),
        (
            {"type": "mcp_tool_call", "server": "s", "tool": "t", "arguments": None, "status": "failed",
             "error": {"message": "no"}},
            ("s.t", None, "error", "no"),
        ),
        ({"type": "web_search", "query": "q"}, ("web_search", {"query": "q"}, "ok", "")),
        (
            {"type": "file_change", "changes": [{"path": "/a", "kind": "update"}], "status": "failed"},
            ("file_change", {"changes": [{"path": "/a", "kind": "update"}]}, "error", "update /a"),
        ),
        (
            {"type": "command_execution", "command": "c", "status": "declined", "exit_code": None},
            ("command_execution", {"command": "c"}, "error", ""),
        ),
    ],
)  # fmt: skip
def test_every_kind_of_tool_begins_and_ends(item: dict[str, Any], ought: tuple[Any, ...]) -> None:
    driver = CodexDriver(_job())
    begun, ended = _item(driver, {"id": "item_1", **item})
    assert (begun.kind, ended.kind) == ("tool_progress", "tool_summary")
    assert begun.body["call"] == ended.body["call"] == "t0:item_1"
    assert (begun.body["name"], begun.body["input"], ended.body["outcome"], ended.body["output"]) == ought
    assert not driver.open_calls


def test_a_tool_that_is_updated_begins_once_and_ends_once() -> None:
    driver = CodexDriver(_job())
    item = {"id": "i", "type": "command_execution", "command": "c", "status": "in_progress"}
    assert [event.kind for event in _item(driver, item, "item.started")] == ["tool_progress"]
    assert _item(driver, item, "item.updated") == [] and driver.open_calls == {"t0:i": "command_execution"}
    assert [event.kind for event in _item(driver, {**item, "exit_code": 0})] == ["tool_summary"]
    assert _item(driver, {**item, "exit_code": 0}) == []


def test_thoughts_plans_and_warnings() -> None:
    driver = CodexDriver(_job())
    (thought,) = _item(driver, {"id": "i", "type": "reasoning", "text": "hm"})
    assert (thought.kind, thought.body) == ("thinking", {"text": "hm"})
    steps = [{"text": "a", "completed": True}, {"text": "b", "completed": False}]
    plan = {"id": "j", "type": "todo_list", "items": steps}
    assert _item(driver, plan, "item.started") == []
    (told,) = _item(driver, plan)
    assert (told.kind, told.body) == ("notice", {"code": "plan", "text": "[x] a\n[ ] b"})
    (warning,) = _item(driver, {"id": "k", "type": "error", "message": "careful"})
    assert warning.kind == "notice" and driver.final is None


def test_a_failed_turn_says_why() -> None:
    driver = CodexDriver(_job())
    driver.on_line(b'{"type":"error","message":"first"}')
    driver.on_line(b'{"type":"turn.failed"}')
    assert driver.final is not None and not driver.final.ok and driver.final.reason == "first"


@pytest.mark.parametrize(
    "line",
    [b"x", b"\xff", b'{"type":"new"}', b'{"type":"item.completed"}', b'{"type":"item.started","item":{}}'],
)
def test_an_odd_line_is_a_notice(line: bytes) -> None:
    (entry,) = CodexDriver(_job()).on_line(line).entries
    assert isinstance(entry, NewEvent) and entry.kind == "notice"


# --- the launch


@pytest.mark.parametrize(
    ("policy", "sandbox"), [("ask", "read-only"), ("deny", "read-only"), ("allow", "danger-full-access")]
)
def test_the_sandbox_follows_the_policy_and_a_narrow_one_is_told(policy: Policy, sandbox: str) -> None:
    started = launch(_job(policy))
    argv = started.argv
    assert argv[:3] == ("/opt/codex", "exec", "--json") and argv[argv.index("-s") + 1] == sandbox
    assert (started.notice is not None) == (policy != "allow") and not started.listens


@pytest.mark.parametrize("prompt", ["--help", "-", "secret " * 100_000])
def test_a_prompt_is_on_stdin_and_never_on_the_command_line(prompt: str) -> None:
    started = launch(_job(prompt=prompt, args=("-m", "x"), resume=True))
    assert started.argv[-4:] == ("x", "resume", "01a1e267-f865-7122-b25a-dd09a9e6c8b7", "-")
    assert started.stdin == prompt and prompt not in started.argv[:-1]


@pytest.mark.parametrize("prompt", ["", " \n", "a\0b", "\ud800"])
def test_a_prompt_that_codex_cannot_read_is_refused(prompt: str) -> None:
    with pytest.raises(BadInput):
        launch(_job(prompt=prompt))


@pytest.mark.parametrize("id", [None, "", "not-a-uuid", "--last"])
def test_only_a_uuid_is_resumed(id: str | None) -> None:
    with pytest.raises(BadInput):
        launch(_job(resume=True, native_id=id))


def _without_numbers(lines: list[str]) -> list[str]:
    return [line.replace("#1", "#").replace("#2", "#") for line in lines]
