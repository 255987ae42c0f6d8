"""The driver of Claude Code, on recordings of the real 2.1.197 and 2.1.325 and on made-up lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.agents.claude.control import prompt_id
from holdfast.agents.claude.driver import ClaudeDriver
from holdfast.agents.driver import AgentJob, Entry, FinalResult, Policy
from holdfast.model.changes import SeeToken
from holdfast.model.event import NewEvent
from tests.support.recorded_streams import Recording, Replay

OLD, NEW = "claude-2.1.197", "claude-2.1.325"
OUGHT: dict[str, str] = {
    "text": """
        assistant Hi there""",
    "tools": """
        assistant Running it.
        tool_progress #1 Bash {"command": "echo one > f1", "description": "fake"}
        permission #1 Bash allow by policy
        tool_summary #1 Bash ok (Bash completed with no output)
        assistant Running it.
        tool_progress #2 Bash {"command": "cat f1; exit 3", "description": "fake"}
        permission #2 Bash allow by policy
        tool_summary #2 Bash error Exit code 3\\none
        assistant done""",
    "thinking": """
        thinking let me see
        tool_progress #1 Bash {"command": "echo hi", "description": "fake"}
        tool_summary #1 Bash ok hi
        thinking so it is
        assistant ok then""",
    "asked_allowed": """
        assistant Running it.
        tool_progress #1 Bash {"command": "touch a", "description": "fake"}
        permission #1 Bash None by None
        tool_summary #1 Bash ok (Bash completed with no output)
        assistant did""",
    "asked_denied": """
        assistant Running it.
        tool_progress #1 Bash {"command": "touch a", "description": "fake"}
        permission #1 Bash None by None
        tool_summary #1 Bash error The user refused this.
        assistant did not""",
    "policy_deny": """
        assistant Running it.
        tool_progress #1 Bash {"command": "touch a", "description": "fake"}
        permission #1 Bash deny by policy
        tool_summary #1 Bash error The user refused this.
        assistant did not""",
    "interrupt_tool": """
        assistant Running it.
        tool_progress #1 Bash {"command": "touch started; sleep 20", "description": "fake"}
        permission #1 Bash allow by policy
        tool_summary #1 Bash interrupted The user doesn't want to proceed …
        notice interrupted: [Request interrupted by user for …""",
    "interrupt_asking": """
        assistant Running it.
        tool_progress #1 Bash {"command": "touch a", "description": "fake"}
        permission #1 Bash None by None
        permission #1 Bash withdrawn by agent
        tool_summary #1 Bash interrupted The user doesn't want to proceed …
        notice interrupted: [Request interrupted by user for …""",
    "api_500": """
        notice api_retry: the model's API failed (500 serve…
        error api_error: API Error: 500 broken. This is a …""",
    "api_429": """
        assistant Running it.
        tool_progress #1 Bash {"command": "echo hi", "description": "fake"}
        tool_summary #1 Bash ok hi
        notice api_retry: the model's API failed (429 rate_…
        error api_error: API Error: Request rejected (429)…""",
    "resume_2": """
        assistant Running it.
        tool_progress #1 Bash {"command": "echo again", "description": "fake"}
        tool_summary #1 Bash ok again
        assistant second""",
    "background_bash": """
        tool_progress #1 Bash \
{"command": "sleep 2; echo late", "description": "fake", "run_in_background": true}
        tool_summary #1 Bash ok Command running in background wit…
        assistant main done
        notice background_running: still running: fake
        notice background_ended: background task completed: Backgr…
        assistant after""",
    "killed_tool": """
        assistant Running it.
        tool_progress #1 Bash {"command": "touch started; sleep 3", "description": "fake"}
        permission #1 Bash allow by policy
        tool_summary #1 Bash interrupted The outcome is unknown: the agent…""",
    "killed_asking": """
        assistant Running it.
        tool_progress #1 Bash {"command": "touch a", "description": "fake"}
        permission #1 Bash None by None
        tool_summary #1 Bash interrupted It did not run: the permission re…""",
    "eof_midturn": """
        assistant Running it.
        tool_progress #1 Bash {"command": "touch started; sleep 2", "description": "fake"}
        permission #1 Bash allow by policy
        tool_summary #1 Bash ok (Bash completed with no output)
        assistant Running it.
        tool_progress #2 Bash {"command": "touch second", "description": "fake"}
        tool_summary #2 Bash error Tool permission request failed: A…
        assistant fin""",
    "slash": """
        notice synthetic: ## Context Usage\\n\\n**Model:** cl…""",
    "ask_question": """
        tool_progress #1 AskUserQuestion {"questions": [{"question": "Which?", "header": "W", \
"multiSelect": false, "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}]}]}
        permission #1 AskUserQuestion allow by policy
        tool_summary #1 AskUserQuestion ok The user did not answer the quest…
        assistant ok""",
    "parallel": """
        tool_progress #1 Bash {"command": "touch a", "description": "fake"}
        permission #1 Bash allow by policy
        tool_progress #2 Bash {"command": "touch b", "description": "fake"}
        tool_summary #1 Bash ok (Bash completed with no output)
        permission #2 Bash allow by policy
        tool_summary #2 Bash ok (Bash completed with no output)
        assistant both""",
    "background": """
        tool_progress #1 Agent {"description": "d", "prompt": "sub [[bash:sleep 4; echo hi > sub|\
text:sub done]]", "subagent_type": "general-purpose", "run_in_background": true}
        tool_summary #1 Agent ok Async agent launched successfully…
        in #1 assistant Running it.
        in #1 tool_progress #2 Bash {"command": "sleep 4; echo hi > sub", "description": "fake"}
        in #1 permission #2 Bash allow by policy
        assistant main waits
        in #1 tool_summary #2 Bash ok (Bash completed with no output)
        in #1 assistant sub done
        notice background_ended: background task completed: sub do…
        assistant main after""",
    "subagent": """
        tool_progress #1 Agent {"description": "sub", "prompt": "sub job [[bash:echo insub|\
text:subdone]]", "subagent_type": "general-purpose"}
        tool_summary #1 Agent ok Async agent launched successfully…
        in #1 assistant Running it.
        in #1 tool_progress #2 Bash {"command": "echo insub", "description": "fake"}
        assistant main done
        in #1 tool_summary #2 Bash ok insub
        in #1 assistant subdone
        notice background_ended: background task completed: subdone
        assistant (script over)""",
    "interrupt_background": """
        tool_progress #1 Agent {"description": "d", "prompt": "sub [[bash:touch started; sleep 9; \
echo hi > sub|text:sub done]]", "subagent_type": "general-purpose", "run_in_background": true}
        tool_summary #1 Agent ok Async agent launched successfully…
        in #1 assistant Running it.
        in #1 tool_progress #2 Bash \
{"command": "touch started; sleep 9; echo hi > sub", "description": "fake"}
        in #1 permission #2 Bash allow by policy
        assistant main waits
        notice background_ended: background task stopped: d
        in #1 tool_summary #2 Bash interrupted The outcome is unknown: the agent…""",
}
# Where the older one says it otherwise, or in another order.
OUGHT_OLD = {
    "parallel": """
        tool_progress #1 Bash {"command": "touch a", "description": "fake"}
        permission #1 Bash allow by policy
        tool_progress #2 Bash {"command": "touch b", "description": "fake"}
        permission #2 Bash allow by policy
        tool_summary #1 Bash ok (Bash completed with no output)
        tool_summary #2 Bash ok (Bash completed with no output)
        assistant both""",
    "subagent": """
        tool_progress #1 Agent {"description": "sub", "prompt": "sub job [[bash:echo insub|\
text:subdone]]", "subagent_type": "general-purpose"}
        in #1 tool_progress #2 Bash {"command": "echo insub", "description": "fake"}
        in #1 tool_summary #2 Bash ok insub
        tool_summary #1 Agent ok subdoneagentId: X
        assistant main done""",
    "background": OUGHT["background"].replace("completed: sub do…", "completed: Agent …"),
    "eof_midturn": OUGHT["eof_midturn"].replace("failed: A…", "failed: E…"),
    "interrupt_background": """
        tool_progress #1 Agent {"description": "d", "prompt": "sub [[bash:touch started; sleep 9; \
echo hi > sub|text:sub done]]", "subagent_type": "general-purpose", "run_in_background": true}
        tool_summary #1 Agent ok Async agent launched successfully…
        assistant main waits
        in #1 assistant Running it.
        in #1 tool_progress #2 Bash \
{"command": "touch started; sleep 9; echo hi > sub", "description": "fake"}
        in #1 permission #2 Bash allow by policy
        notice background_ended: background task stopped: d
        in #1 tool_summary #2 Bash interrupted The user doesn't want to proceed …""",
}
CANCELLED = {"interrupt_tool", "interrupt_asking", "interrupt_text", "interrupt_background"}
UNFINISHED = {"killed_tool", "killed_asking"}
FAILED = {"api_500", "api_429"}


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("name", list(OUGHT))
def test_a_recorded_run_gives_exactly_its_events(version: str, name: str) -> None:
    recording = Recording(version, name)
    replay = Replay(recording)
    ought = OUGHT_OLD.get(name, OUGHT[name]) if version == OLD else OUGHT[name]
    told = [
        line if "agentId: " not in line else line.split("agentId: ")[0] + "agentId: X"
        for line in replay.told()
    ]
    resumed = f"the agent resumed conversation {recording.job.native_id}"
    proof = [f"notice resumed: {resumed[:33]}…"] if recording.job.resume else []
    lines = [line.strip() for line in ought.strip().split("\n")]
    assert told == [*proof, f"user {recording.job.prompt}", *lines]
    driver = replay.driver
    assert driver.accepted and driver.native_id == recording.job.native_id
    assert not driver.pending_permissions and not driver.open_calls
    if name in UNFINISHED:
        assert driver.final is None and recording.exit == -9
    else:
        assert driver.final is not None
        assert driver.final.ok == (name not in CANCELLED | FAILED)
        assert driver.final.cancelled == (name in CANCELLED)


@pytest.mark.parametrize("version", [OLD, NEW])
def test_text_that_was_cut_by_an_interrupt_is_kept(version: str) -> None:
    replay = Replay(Recording(version, "interrupt_text"))
    assert [event.kind for event in replay.events] == ["user", "assistant", "notice"]
    assert replay.events[1].body["text"].startswith("w0 w1 w2 ")
    final = replay.driver.final
    assert final is not None
    assert (final.ok, final.cancelled, final.reason) == (False, True, "aborted_streaming")


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_conversation_that_is_not_there_fails_before_the_prompt_is_accepted(version: str) -> None:
    replay = Replay(Recording(version, "resume_unknown"))
    assert not replay.entries and not replay.driver.accepted and replay.driver.native_id is None
    final = replay.driver.final
    assert final is not None and not final.ok
    assert (
        final.reason
        == f"No conversation found with session ID: {Recording(version, 'resume_unknown').job.native_id}"
    )


@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_final_word_comes_when_nothing_is_left_to_wait_for(version: str) -> None:
    """A background subagent gives two results for one prompt; 2.1.197 is idle in between."""
    recording = Recording(version, "background")
    replay = Replay(recording)
    assert replay.settled_at == len(recording.lines)
    assert replay.driver.final is not None and replay.driver.final.answer == "main after"
    command = Recording(version, "background_bash")
    replay = Replay(command)
    assert replay.settled_at is not None and replay.settled_at < len(command.lines)
    assert replay.driver.final is not None and replay.driver.final.answer == "after", "it goes on when woken"


@pytest.mark.parametrize("version", [OLD, NEW])
def test_usage_adds_up_and_a_sum_over_resumes_is_not_taken_for_this_runs(version: str) -> None:
    usage = _final(Recording(version, "background")).usage
    results = [json.loads(line) for line in Recording(version, "background").lines]
    results = [record for record in results if record["type"] == "result"]
    assert len(results) == 2
    assert usage["input_tokens"] == sum(record["usage"]["input_tokens"] for record in results)
    assert usage["cost_usd"] == results[-1]["total_cost_usd"]
    resumed = _final(Recording(version, "resume_2")).usage
    if version == OLD:
        assert resumed["cost_usd"] == pytest.approx(0.220665)
    else:
        assert "cost_usd" not in resumed and resumed["conversation"]["cost_usd"] == pytest.approx(0.154732)


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize(
    "name", ["tools", "thinking", "parallel", "asked_denied", "interrupt_tool", "api_429", "resume_2"]
)
def test_live_origins_are_those_that_the_transcript_gives(version: str, name: str) -> None:
    recording = Recording(version, name)
    written = set()
    for _, record, kind, *call in recording.blocks:
        written.add({"tool_use": "call:", "tool_result": "result:"}.get(kind, record) + "".join(call))
    origins = [event.origin for event in Replay(recording).events if event.kind not in ("permission",)]
    seen = [origin.record_id for origin in origins if origin is not None]
    assert len(set(seen)) == len(seen) and set(seen) <= written
    if name != "resume_2":  # whose transcript has the turn before, too
        assert set(seen) == written
    assert {(o.agent, o.native_id) for o in origins if o} == {("claude", recording.job.native_id)}


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("name", list(OUGHT))
def test_hearing_again_gives_the_same(version: str, name: str) -> None:
    """The fold is deterministic, and needs no answers to be told again: the CLI repeats them."""
    recording = Recording(version, name)
    one, two = Replay(recording), ClaudeDriver(recording.job)
    two.start_messages()
    entries: list[Entry] = []
    for line in recording.lines:
        entries += two.on_line(line).entries
    entries += two.on_eof().entries
    assert entries == one.entries
    assert two.final == one.driver.final


# --- lines that no recording has


def _job(permissions: Policy = "ask", resume: bool = False) -> AgentJob:
    return AgentJob(
        agent="claude",
        session="s0",
        task="t0",
        prompt="hello",
        cwd="/home/dev/proj",
        program=("claude",),
        permissions=permissions,
        native_id="id-asked",
        resume=resume,
    )


def _hear(driver: ClaudeDriver, record: dict[str, Any]) -> list[Entry]:
    return driver.on_line(json.dumps(record).encode()).entries


def _final(recording: Recording) -> FinalResult:
    final = Replay(recording).driver.final
    assert final is not None
    return final


def _init(id: str = "id-asked") -> dict[str, Any]:
    return {"type": "system", "subtype": "init", "session_id": id, "claude_code_version": "2.1.325"}


def _result(**more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "ok", **more}


def _call(id: str) -> dict[str, Any]:
    block = {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "true"}}
    return {"type": "assistant", "uuid": "u-" + id, "message": {"content": [block]}}


def _ask(id: str, call: str) -> dict[str, Any]:
    request = {
        "subtype": "can_use_tool",
        "tool_name": "Bash",
        "tool_use_id": call,
        "input": {"command": "true"},
    }
    return {"type": "control_request", "request_id": id, "request": request}


@pytest.mark.parametrize("resume", [True, False])
def test_another_conversation_is_recorded_as_exactly_that(resume: bool) -> None:
    driver = ClaudeDriver(_job(resume=resume))
    token, notice, user = _hear(driver, _init("id-other"))
    assert token == SeeToken(
        agent="claude",
        native_id="id-other",
        seen_in="stream",
        protocol="stream-json",
        instead_of="id-asked" if resume else None,  # what was asked for stays current
    )
    assert isinstance(notice, NewEvent) and notice.body["code"] == "other_conversation"
    assert (notice.body["asked"], notice.body["got"]) == ("id-asked", "id-other")
    assert isinstance(user, NewEvent) and user.origin is not None and user.origin.native_id == "id-other"
    assert driver.native_id == "id-other"
    assert _hear(driver, _init("id-other")) == []


def test_the_replayed_prompt_is_acceptance_too_and_only_once() -> None:
    driver = ClaudeDriver(_job())
    record = {"type": "user", "uuid": prompt_id("t0"), "isReplay": True, "message": {"content": "hello"}}
    (user,) = _hear(driver, record)
    assert isinstance(user, NewEvent) and (user.kind, user.body) == ("user", {"text": "hello"})
    assert driver.accepted and _hear(driver, record) == [] and _hear(driver, _init()) == []


def test_without_states_the_result_is_the_final_word() -> None:
    driver = ClaudeDriver(_job())
    _hear(driver, _init())
    _hear(driver, _result())
    assert driver.final is not None and driver.final.ok


def test_with_states_a_result_counts_when_it_is_idle_or_gone() -> None:
    running = {"type": "system", "subtype": "session_state_changed", "state": "running"}
    for last in ("idle", "end", "another turn"):
        driver = ClaudeDriver(_job())
        for record in (running, _init(), _result()):
            _hear(driver, record)
        assert driver.final is None
        if last == "idle":
            _hear(driver, {**running, "state": "idle"})
        elif last == "another turn":
            _hear(driver, _init())
        driver.on_eof()
        assert (driver.final is not None) == (last != "another turn")


@pytest.mark.parametrize(
    ("result", "ok"),
    [
        (_result(), True),
        (_result(is_error=True), False),
        (_result(terminal_reason="api_error"), False),
        (_result(terminal_reason="max_turns"), False),
        (_result(subtype="error_during_execution", terminal_reason="completed"), True),
    ],
)
def test_the_subtype_is_not_believed(result: dict[str, Any], ok: bool) -> None:
    driver = ClaudeDriver(_job())
    _hear(driver, result)
    assert driver.final is not None and driver.final.ok == ok
    assert (driver.final.reason is None) == ok


def test_what_is_known_of_calls_without_an_end() -> None:
    driver = ClaudeDriver(_job())
    for call in "abcd":
        _hear(driver, _call(call))
    for id, call in (("1", "b"), ("2", "c"), ("3", "d")):
        _hear(driver, _ask(id, call))
    assert driver.answer("2", "deny").sends and not driver.answer("2", "deny").sends
    _hear(driver, {"type": "control_cancel_request", "request_id": "3"})
    known = {
        entry.body["call"]: entry.body for entry in driver.on_eof().entries if isinstance(entry, NewEvent)
    }
    assert {body["outcome"] for body in known.values()} == {"interrupted"}
    assert "unknown" in known["a"]["output"]
    assert "not answered" in known["b"]["output"]
    assert "denied" in known["c"]["output"]
    assert "did not run" in known["d"]["output"] and "withdrawn" in known["d"]["output"]
    assert driver.on_eof().entries == []


def test_a_subagent_that_runs_when_the_agent_dies_leaves_no_final_word() -> None:
    driver = ClaudeDriver(_job())
    for record in (
        _init(),
        _call("a"),
        {
            "type": "system",
            "subtype": "task_started",
            "task_id": "x",
            "tool_use_id": "a",
            "task_type": "local_agent",
        },
        {
            "type": "user",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "a", "content": "started"}]},
            "tool_use_result": {"isAsync": True},
        },
        _result(),
        {"type": "system", "subtype": "session_state_changed", "state": "idle"},
    ):
        _hear(driver, record)
    driver.on_eof()
    assert driver.final is None


def test_a_request_that_we_do_not_know_is_answered_so_that_it_does_not_wait() -> None:
    driver = ClaudeDriver(_job())
    record = {"type": "control_request", "request_id": "r", "request": {"subtype": "elicitation"}}
    out = driver.on_line(json.dumps(record).encode())
    (sent,) = out.sends
    assert json.loads(sent)["response"] == {
        "subtype": "error",
        "request_id": "r",
        "error": "this host does not do that",
    }
    assert not driver.pending_permissions


@pytest.mark.parametrize("content", ["plain", [{"type": "text", "text": "plain"}]])
def test_a_tools_output_is_text_however_it_was_given(content: Any) -> None:
    driver = ClaudeDriver(_job())
    _hear(driver, _call("a"))
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    given = [*content, image] if isinstance(content, list) else content
    block = {"type": "tool_result", "tool_use_id": "a", "content": given}
    (summary,) = _hear(driver, {"type": "user", "message": {"content": [block]}})
    assert isinstance(summary, NewEvent)
    assert summary.body["output"] == ("plain" if isinstance(content, str) else "plain\n[image image/png]")
    assert _hear(driver, {"type": "user", "message": {"content": [block]}}) == [], "told twice"


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"\xff",
        b"[1]",
        b'{"type":"brand_new"}',
        b'{"type":"system","subtype":"brand_new"}',
        b'{"type":"assistant","message":{"content":[{"type":"brand_new"}]}}',
        b'{"type":"assistant","message":{"content":[{"type":"tool_use"}]}}',
        b'{"type":"control_request"}',
    ],
)
def test_an_odd_line_is_a_notice(line: bytes) -> None:
    (entry,) = ClaudeDriver(_job()).on_line(line).entries
    assert isinstance(entry, NewEvent) and entry.kind == "notice"
    assert entry.body["code"] in ("not_json", "not_utf8", "unknown_record")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"  ",
        b'{"type":"keep_alive"}',
        b'{"type":"system","subtype":"status"}',
        b'{"type":"control_response"}',
    ],
)
def test_bookkeeping_gives_nothing(line: bytes) -> None:
    assert ClaudeDriver(_job()).on_line(line).entries == []


def test_an_answer_that_the_agent_repeats_or_acts_on_is_not_waited_for() -> None:
    """Heard again after a restart, there is nobody to say it a second time."""
    driver = ClaudeDriver(_job())
    _hear(driver, _ask("1", "a"))
    _hear(driver, _ask("2", "b"))
    assert list(driver.pending_permissions) == ["1", "2"]
    echo = {"subtype": "success", "request_id": "1", "response": {"behavior": "allow"}}
    _hear(driver, {"type": "control_response", "response": echo})
    assert list(driver.pending_permissions) == ["2"]
    block = {"type": "tool_result", "tool_use_id": "b", "content": "done"}
    _hear(driver, {"type": "user", "message": {"content": [block]}})
    assert not driver.pending_permissions and driver.answer("2", "allow").sends == []
