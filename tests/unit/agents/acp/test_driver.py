"""The ACP driver, line by line: what it says, what it hears, and what it makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agents.acp import tool_calls, updates
from holdfast.agents.acp.content import (
    AcpOrigins,
    block_text,
    call_id,
    diffs,
    join_surrogates,
    raw_text,
    shown_text,
    tool_name,
)
from holdfast.agents.acp.driver import AcpDriver
from holdfast.agents.driver import AgentJob, DriverOutput, Policy
from holdfast.model.changes import SeeToken
from holdfast.model.event import NewEvent, Origin, check

NATIVE = "ses_0123456789ab"
CAPABLE = {"loadSession": True, "sessionCapabilities": {"resume": {}}}


def job(permissions: Policy = "ask", resume: bool = False, agent: str = "any") -> AgentJob:
    return AgentJob(
        agent=agent,
        session="s1",
        task="t1",
        prompt="do it",
        cwd="/home/dev/project",
        program=("agent",),
        permissions=permissions,
        native_id=NATIVE if resume else None,
        resume=resume,
    )


class Talk:
    """A driver and all that it gave."""

    def __init__(self, made: AgentJob | None = None):
        self.driver = AcpDriver(made or job())
        self.entries: list[Any] = []
        self.sent: list[dict[str, Any]] = []
        self.take(self.driver.start_messages())

    def take(self, out: DriverOutput | None) -> DriverOutput:
        assert out is not None
        self.entries += out.entries
        for line in out.sends:
            assert line.endswith(b"\n") and line.count(b"\n") == 1
            self.sent.append(json.loads(line))
        for entry in out.entries:
            if isinstance(entry, NewEvent):
                check(entry)
        return out

    def receive(self, **message: Any) -> DriverOutput:
        return self.take(self.driver.on_line(json.dumps({"jsonrpc": "2.0", **message}).encode()))

    def update(self, what: str, session: str = NATIVE, **fields: Any) -> DriverOutput:
        told = {"sessionId": session, "update": {"sessionUpdate": what, **fields}}
        return self.receive(method="session/update", params=told)

    def say(self, text: str, kind: str = "agent_message_chunk", **fields: Any) -> DriverOutput:
        return self.update(kind, content={"type": "text", "text": text}, **fields)

    def ask(self, request: Any, call: dict[str, Any], *kinds: str) -> DriverOutput:
        options = [{"optionId": f"id-{kind}", "name": kind, "kind": kind} for kind in kinds]
        params = {"sessionId": NATIVE, "toolCall": call, "options": options}
        return self.receive(id=request, method="session/request_permission", params=params)

    def begin(self, name: str = "x") -> Talk:
        self.receive(
            id=0, result={"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": name}}
        )
        self.receive(id=1, result={"sessionId": NATIVE})
        return self

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        return [(e.kind, e.body) for e in self.entries if isinstance(e, NewEvent)]

    @property
    def origins(self) -> list[str | None]:
        events = [e for e in self.entries if isinstance(e, NewEvent)]
        return [None if e.origin is None else e.origin.record_id for e in events]


def test_a_new_conversation_is_opened_and_its_token_comes_with_the_prompt() -> None:
    talk = Talk()
    assert talk.sent[0]["method"] == "initialize" and talk.sent[0]["params"]["protocolVersion"] == 1
    assert talk.driver.interrupt() is None
    out = talk.receive(id=0, result={"protocolVersion": 1})
    assert not out.entries and talk.sent[1]["method"] == "session/new"
    assert talk.sent[1]["params"] == {"cwd": "/home/dev/project", "mcpServers": []}
    assert talk.driver.interrupt() is None
    out = talk.receive(id=1, result={"sessionId": NATIVE})
    assert out.entries == [SeeToken(agent="any", native_id=NATIVE, protocol="acp", seen_in="stream")]
    assert len(out.sends) == 1 and talk.sent[2]["method"] == "session/prompt"
    assert talk.sent[2]["params"] == {"sessionId": NATIVE, "prompt": [{"type": "text", "text": "do it"}]}
    assert talk.driver.native_id == NATIVE and not talk.driver.accepted


def test_menus_do_not_show_that_the_prompt_was_taken_but_words_do() -> None:
    talk = Talk().begin()
    for kind in ("available_commands_update", "usage_update", "current_mode_update", "session_info_update"):
        talk.update(kind)
    assert not talk.driver.accepted and not talk.events
    talk.say("Hel")
    assert talk.driver.accepted and talk.events == [("user", {"text": "do it"})]


@pytest.mark.parametrize("kind", ["user_message_chunk", "tool_call", "plan", "agent_thought_chunk"])
def test_these_show_that_the_prompt_was_taken(kind: str) -> None:
    talk = Talk().begin()
    talk.update(kind, toolCallId="c", content={"type": "text", "text": "do it"})
    assert talk.driver.accepted and talk.events[0] == ("user", {"text": "do it"})


def test_chunks_are_joined_until_something_else_comes() -> None:
    talk = Talk().begin()
    talk.say("Hm", "agent_thought_chunk", messageId="msg_0a1b2c3d4e")
    talk.say("m", "agent_thought_chunk", messageId="msg_0a1b2c3d4e")
    talk.say("", messageId="msg_0a1b2c3d4e")
    talk.say("One ", messageId="msg_0a1b2c3d4e")
    talk.update("usage_update", used=1, size=2)
    talk.say("two.", messageId="msg_0a1b2c3d4e")
    talk.say("Three.", messageId="msg_ffffffff01")
    talk.receive(id=2, result={"stopReason": "end_turn"})
    assert talk.events[1:] == [
        ("thinking", {"text": "Hmm"}),
        ("assistant", {"text": "One two."}),
        ("assistant", {"text": "Three."}),
    ]
    assert talk.origins == [
        "t1:prompt:0",
        "message:msg_0a1b2c3d4e:0",
        "message:msg_0a1b2c3d4e:1",
        "message:msg_ffffffff01:0",
    ]
    assert talk.driver.final is not None and talk.driver.final.ok
    assert talk.driver.final.answer == "Three."


def test_a_character_cut_between_two_chunks_is_mended() -> None:
    talk = Talk().begin()
    talk.say("a\ud83d")
    talk.say("\ude00b")
    talk.take(talk.driver.on_eof())
    assert talk.events[-1] == ("assistant", {"text": "a😀b", "cut": True})
    assert join_surrogates("x\ud83d") == "x\ud83d" and join_surrogates("é😀") == "é😀"


def test_what_is_half_said_at_the_end_is_kept() -> None:
    talk = Talk().begin()
    talk.say("I was about t")
    talk.take(talk.driver.on_eof())
    half = {"text": "I was about t", "cut": True}
    assert talk.events == [("user", {"text": "do it"}), ("assistant", half)]
    assert talk.driver.final is None


def test_one_call_has_one_beginning_and_one_end() -> None:
    talk = Talk().begin()
    talk.say("Look.")
    talk.update(
        "tool_call", toolCallId="0:call_8e17bf630d", title="bash", status="pending", rawInput={"cwd": "/"}
    )
    assert talk.driver.open_calls == {"call_8e17bf630d": "bash"}
    for _ in range(3):
        talk.update(
            "tool_call_update",
            toolCallId="0:call_8e17bf630d",
            title="ls",
            status="in_progress",
            rawInput={"command": "ls", "cwd": "/"},
        )
    for _ in range(2):
        talk.update(
            "tool_call_update",
            toolCallId="0:call_8e17bf630d",
            status="completed",
            content=[{"type": "content", "content": {"type": "text", "text": "a\nb\n"}}],
        )
    talk.update("tool_call", toolCallId="0:call_8e17bf630d", title="bash", status="pending")
    assert talk.events[2:] == [
        (
            "tool_progress",
            {"call": "call_8e17bf630d", "name": "bash", "input": {"cwd": "/", "command": "ls"}},
        ),
        ("tool_summary", {"call": "call_8e17bf630d", "name": "bash", "outcome": "ok", "output": "a\nb\n"}),
    ]
    assert talk.origins[2:] == ["call:call_8e17bf630d", "result:call_8e17bf630d"]
    assert talk.driver.open_calls == {}


def test_the_beginning_waits_for_the_input() -> None:
    talk = Talk().begin()
    claude: dict[str, Any] = {"toolCallId": "toolu_945a4f00", "_meta": {"claudeCode": {"toolName": "Bash"}}}
    assert not talk.update("tool_call", **claude, rawInput={}, status="pending", title="Terminal").entries[1:]
    out = talk.update("tool_call_update", **claude, rawInput={"command": "ls"}, title="ls")
    assert [e.body["input"] for e in out.entries if isinstance(e, NewEvent)] == [{"command": "ls"}]
    kimi = {"toolCallId": "0:call_f571c009"}
    talk.update("tool_call", **kimi, title="Bash", status="pending")
    args = [{"type": "content", "content": {"type": "text", "text": '{"command": "l'}}]
    assert not talk.update("tool_call_update", **kimi, status="in_progress", content=args).entries
    out = talk.update(
        "tool_call_update", **kimi, status="in_progress", rawInput={"command": "ls"}, content=args
    )
    assert [e.body["name"] for e in out.entries if isinstance(e, NewEvent)] == ["Bash"]
    gemini = {"toolCallId": "read_file__read_file_1794781413244_0"}
    out = talk.update("tool_call", **gemini, status="in_progress", title="a.txt", kind="read")
    assert [(e.body["name"], e.body["input"]) for e in out.entries if isinstance(e, NewEvent)] == [
        ("read_file", {"title": "a.txt"})
    ]


def test_a_call_that_only_ends_has_both() -> None:
    talk = Talk().begin()
    talk.update("tool_call", toolCallId="c1", kind="edit", title="Write it")
    talk.update(
        "tool_call_update",
        toolCallId="c1",
        status="failed",
        rawOutput={"error": "no room"},
        content=[{"type": "diff", "path": "/a", "oldText": None, "newText": "x"}],
    )
    assert talk.events[1:] == [
        ("tool_progress", {"call": "c1", "name": "edit", "input": {"title": "Write it"}}),
        (
            "tool_summary",
            {
                "call": "c1",
                "name": "edit",
                "outcome": "error",
                "output": "no room",
                "diff": [{"path": "/a", "old": None, "new": "x"}],
            },
        ),
    ]


def test_what_a_terminal_of_the_agent_printed() -> None:
    talk = Talk().begin()
    screen = [{"type": "terminal", "terminalId": "c1"}]
    talk.update("tool_call", toolCallId="c1", title="ls", status="in_progress", content=screen)
    for piece, status in (("a\n", "in_progress"), ("b\n", "completed")):
        meta = {"terminal_output_delta": {"data": piece, "terminal_id": "c1"}}
        talk.update("tool_call_update", toolCallId="c1", status=status, _meta=meta)
    assert talk.events[-1][1]["output"] == "a\nb\n"


def test_an_id_that_may_be_a_counter_counts_for_its_task_only() -> None:
    origins = AcpOrigins("any", "t9")
    assert origins.of("call", "call_8e17bf630d") is None
    origins.native_id = NATIVE
    assert origins.of("call", "call_8e17bf630d") == Origin("any", NATIVE, "call:call_8e17bf630d")
    for told in ("call_1", "functions.Bash:0", "1", "toolcall"):
        assert origins.of("call", told) == Origin("any", NATIVE, f"t9:call:{told}")
    for odd in ("", "a b", "x" * 501, "\ud800", "a\0"):
        assert origins.of("call", odd) is None


def test_names_of_tools() -> None:
    assert tool_name({"name": "Bash", "title": "x"}, False) == "Bash"
    assert tool_name({"_meta": {"claudeCode": {"toolName": "Write"}}}, False) == "Write"
    assert (
        tool_name({"toolCallId": "run_shell_command__run_shell_command_1794_0"}, False) == "run_shell_command"
    )
    assert tool_name({"title": "bash", "status": "pending"}, True) == "bash"
    assert tool_name({"title": "bash", "status": "pending"}, False) is None
    assert tool_name({"title": "ls", "status": "in_progress"}, True) is None
    assert tool_name({"title": "ls -l", "status": "pending"}, True) is None
    assert call_id("0:call_x") == "call_x" and call_id("call:x") == "call:x" and call_id("7:") == "7:"


def test_content_as_text() -> None:
    assert block_text({"type": "image", "mimeType": "image/png", "data": "…"}) == "[image image/png]"
    assert block_text({"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}) == "inside"
    assert block_text({"type": "resource", "resource": {"uri": "file:///a"}}) == "[resource_link file:///a]"
    assert block_text(None) == "" and block_text({}) == ""
    assert shown_text([{"type": "terminal", "terminalId": "t1"}, {"type": "diff"}, 7]) == ""
    assert diffs("x") == [] and raw_text(None) == "" and raw_text([1]) == "[1]" and raw_text({}) == ""
    assert raw_text({"output": "", "stdout": "hi"}) == "hi"


def test_a_call_of_which_only_its_folder_is_told_has_not_begun() -> None:
    talk = Talk().begin()
    for kind in ("tool_call", "tool_call_update"):
        talk.update(kind, toolCallId="c1", title="bash", status="pending", rawInput={"cwd": "/"})
    assert [kind for kind, _ in talk.events] == ["user"]


# --- permissions


@pytest.mark.parametrize(
    ("decision", "kinds", "chosen"),
    [
        ("allow", ("allow_always", "allow_once", "reject_once"), "id-allow_once"),
        ("allow", ("allow_always", "reject_once"), "id-allow_always"),
        ("deny", ("allow_once", "reject_always", "reject_once"), "id-reject_once"),
        ("deny", ("allow_once", "reject_always"), "id-reject_always"),
        ("deny", ("allow_once",), None),
        ("allow", ("reject_once",), None),
    ],
)
def test_options_are_chosen_by_kind(decision: Any, kinds: tuple[str, ...], chosen: str | None) -> None:
    waiting, ruled = Talk().begin(), Talk(job(decision)).begin()
    call = {"toolCallId": "c1", "title": "rm -r x", "kind": "execute", "rawInput": {"command": "rm -r x"}}
    waiting.ask(0, call, *kinds)
    ruled.ask(0, call, *kinds)
    assert list(waiting.driver.pending_permissions) == ["0"] and not ruled.driver.pending_permissions
    assert waiting.sent[-1]["method"] == "session/prompt"
    body = waiting.events[-1][1]
    assert (body["answer"], body["by"], body["ask"], body["call"]) == (None, None, "0", "c1")
    assert body["input"] == {"command": "rm -r x"} and [o["kind"] for o in body["options"]] == list(kinds)
    assert (ruled.events[-1][1]["answer"], ruled.events[-1][1]["by"]) == (decision, "policy")
    out = waiting.take(waiting.driver.answer("0", decision))
    assert not out.entries and not waiting.driver.pending_permissions
    expected = {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}
    assert waiting.sent[-1] == {"jsonrpc": "2.0", "id": 0, "result": {"outcome": expected}}
    assert ruled.sent[-1] == waiting.sent[-1]
    assert waiting.driver.answer("0", decision) == DriverOutput() == waiting.driver.answer("9", decision)


def test_a_request_for_a_call_begins_it_and_text_comes_first() -> None:
    talk = Talk().begin()
    talk.say("I will.")
    talk.ask("r-1", {"toolCallId": "c1", "title": "ls", "kind": "execute"}, "allow_once")
    assert [kind for kind, _ in talk.events] == ["user", "assistant", "tool_progress", "permission"]
    assert list(talk.driver.pending_permissions) == ["r-1"]
    talk.take(talk.driver.answer("r-1", "allow"))
    assert talk.sent[-1]["id"] == "r-1"


def test_ids_of_the_agent_are_a_space_of_their_own() -> None:
    talk = Talk().begin()
    for number in (0, 1, 2):
        talk.ask(number, {"toolCallId": f"c{number}", "title": "x"}, "allow_once")
    assert list(talk.driver.pending_permissions) == ["0", "1", "2"] and talk.driver.final is None
    talk.receive(id=2, result={"stopReason": "end_turn"})
    assert talk.driver.final is not None


@pytest.mark.parametrize("number", ["2", 2.0, True, None, [2], {"2": 2}])
def test_only_our_own_numbers_are_answers(number: Any) -> None:
    talk = Talk().begin()
    talk.receive(id=number, result={"stopReason": "end_turn"})
    assert talk.driver.final is None and talk.events[-1][1]["code"] == "unknown_record"


def test_a_second_answer_changes_nothing() -> None:
    talk = Talk().begin()
    talk.say("x")
    talk.receive(id=2, result={"stopReason": "end_turn"})
    talk.receive(id=2, error={"code": 1, "message": "no"})
    assert talk.driver.final is not None and talk.driver.final.ok
    assert talk.events[-1][1]["code"] == "unknown_record"


def test_an_ask_is_forgotten_when_its_call_has_ended() -> None:
    talk = Talk().begin()
    talk.ask(0, {"toolCallId": "c1", "title": "x"}, "allow_once")
    talk.ask(1, {"toolCallId": "c2", "title": "x"}, "allow_once")
    talk.update("tool_call_update", toolCallId="c1", status="completed")
    assert list(talk.driver.pending_permissions) == ["1"]


def test_an_id_that_is_used_again_is_another_ask() -> None:
    talk = Talk().begin()
    for call in ("c1", "c2"):
        talk.ask(0, {"toolCallId": call, "title": call}, "allow_once", "reject_once")
    asked = [event for event in talk.entries if isinstance(event, NewEvent) and event.kind == "permission"]
    assert [event.body["ask"] for event in asked] == ["0", "0#2"]
    assert len({event.origin for event in asked}) == 2, "the log would take only one of them"
    talk.take(talk.driver.answer("0#2", "deny"))
    assert talk.sent[-1]["id"] == 0 and list(talk.driver.pending_permissions) == ["0"]


@pytest.mark.parametrize(
    "method",
    ["fs/read_text_file", "fs/write_text_file", "terminal/create", "elicitation/create", "x/y", "_own"],
)
def test_what_we_do_not_offer_is_refused(method: str) -> None:
    talk = Talk().begin()
    out = talk.receive(id=7, method=method, params={"path": "/etc/passwd"})
    assert not out.entries and talk.sent[-1]["id"] == 7 and talk.sent[-1]["error"]["code"] == -32601


# --- the end


@pytest.mark.parametrize("reason", ["max_tokens", "max_turn_requests", "refusal", "cancelled", None, 7])
def test_other_ends_are_not_ok(reason: Any) -> None:
    talk = Talk().begin()
    talk.say("Half")
    talk.receive(id=2, result={"stopReason": reason})
    final = talk.driver.final
    assert final is not None and not final.ok and str(reason) in (final.reason or "")
    assert final.cancelled is (reason == "cancelled") and final.answer == "Half"


def test_an_error_is_not_ok_and_says_why() -> None:
    talk = Talk().begin()
    talk.receive(id=2, error={"code": -32603, "message": "Internal error", "data": {"details": "no quota"}})
    assert talk.driver.accepted and talk.driver.final is not None and not talk.driver.final.ok
    assert talk.driver.final.reason == "Internal error: no quota"
    assert talk.events[-1] == ("error", {"text": "Internal error: no quota", "code": "agent_error"})
    talk = Talk().begin()
    inner = json.dumps({"error": {"message": "scripted refusal", "code": 400}})
    talk.receive(id=2, error={"code": 400, "message": inner})
    assert talk.driver.final is not None and talk.driver.final.reason == "scripted refusal"


@pytest.mark.parametrize("number", [-32000, -32602])
def test_a_prompt_that_was_refused_is_not_taken(number: int) -> None:
    talk = Talk().begin()
    talk.receive(id=2, error={"code": number, "message": "no"})
    assert not talk.driver.accepted and talk.driver.final is not None
    assert [kind for kind, _ in talk.events] == ["error"]


def test_login_needed() -> None:
    talk = Talk()
    talk.receive(id=0, result={"protocolVersion": 1})
    talk.receive(id=1, error={"code": -32000, "message": "Authentication required"})
    assert talk.events == [("error", {"text": "Authentication required", "code": "auth_required"})]
    assert talk.driver.final is not None and talk.driver.native_id is None


def test_another_version_of_the_protocol_is_not_spoken() -> None:
    talk = Talk()
    talk.receive(id=0, result={"protocolVersion": 2})
    assert len(talk.sent) == 1 and talk.driver.final is not None and not talk.driver.final.ok


@pytest.mark.parametrize("told", [None, "", 7, ["x"], "a\0b", "x" * 5000])
def test_a_session_without_an_id_gets_no_prompt(told: Any) -> None:
    talk = Talk()
    talk.receive(id=0, result={"protocolVersion": 1})
    talk.receive(id=1, result={"sessionId": told})
    assert len(talk.sent) == 2 and talk.driver.final is not None and not talk.driver.final.ok


def test_usage_of_all_kinds() -> None:
    talk = Talk().begin()
    talk.say("x")
    talk.update("usage_update", used=10, size=20, cost={"amount": 0.5, "currency": "USD"})
    counted = {"inputTokens": 1, "outputTokens": 2, "cachedReadTokens": 3, "totalTokens": 6}
    talk.receive(id=2, result={"stopReason": "end_turn", "usage": counted})
    assert talk.driver.final is not None
    assert talk.driver.final.usage == {
        "context_tokens": 10,
        "context_size": 20,
        "cost_usd": 0.5,
        "input_tokens": 1,
        "output_tokens": 2,
        "cached_tokens": 3,
    }
    talk.update("usage_update", used=11, size=20)
    assert talk.driver.final.usage["context_tokens"] == 11


def test_the_cost_of_a_conversation_is_not_that_of_its_last_prompt() -> None:
    talk = Talk(job(resume=True))
    talk.receive(id=0, result={"protocolVersion": 1, "agentCapabilities": CAPABLE})
    talk.receive(id=1, result={})
    talk.say("x")
    talk.update("usage_update", cost={"amount": 0.5, "currency": "USD"})
    talk.receive(id=2, result={"stopReason": "end_turn"})
    assert talk.driver.final is not None and talk.driver.final.usage == {"session_cost_usd": 0.5}


def test_what_comes_after_the_answer_is_still_told() -> None:
    talk = Talk().begin()
    talk.say("Done.")
    talk.receive(id=2, result={"stopReason": "end_turn"})
    talk.say("And one more thing.")
    talk.take(talk.driver.on_eof())
    assert [body["text"] for kind, body in talk.events if kind == "assistant"] == [
        "Done.",
        "And one more thing.",
    ]
    assert talk.driver.final is not None and talk.driver.final.answer == "Done."


def test_a_turn_without_any_word_or_deed_is_no_answer() -> None:
    talk = Talk().begin()
    talk.receive(id=2, result={"stopReason": "end_turn"})
    assert talk.driver.final is not None and not talk.driver.final.ok
    assert talk.events[-1][1]["code"] == "no_answer"


@pytest.mark.parametrize(("name", "ok"), [("Kimi Code CLI", False), ("OpenCode", True)])
def test_kimi_that_falls_silent_after_a_tool_has_failed(name: str, ok: bool) -> None:
    talk = Talk().begin(name)
    talk.say("First.")
    talk.update("tool_call", toolCallId="c1", title="Bash", status="pending")
    talk.update("tool_call_update", toolCallId="c1", status="completed", rawOutput="x")
    talk.receive(id=2, result={"stopReason": "end_turn"})
    assert talk.driver.final is not None and talk.driver.final.ok is ok


# --- going on with a conversation


def test_resume_is_preferred_and_load_is_the_other_way() -> None:
    for can, method in ((CAPABLE, "session/resume"), ({"loadSession": True}, "session/load")):
        talk = Talk(job(resume=True))
        talk.receive(id=0, result={"protocolVersion": 1, "agentCapabilities": can})
        assert talk.sent[1]["method"] == method
        assert talk.sent[1]["params"] == {"sessionId": NATIVE, "cwd": "/home/dev/project", "mcpServers": []}
        talk.receive(id=1, result={})
        assert talk.driver.native_id == NATIVE and talk.sent[2]["method"] == "session/prompt"
    talk = Talk(job(resume=True))
    talk.receive(id=0, result={"protocolVersion": 1, "agentCapabilities": {"loadSession": False}})
    assert len(talk.sent) == 1 and talk.events[-1][1]["code"] == "resume_failed"


def test_a_replay_is_not_live() -> None:
    talk = Talk(job(resume=True))
    talk.receive(id=0, result={"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
    talk.say("old prompt", "user_message_chunk")
    talk.say("old answer")
    talk.update("tool_call", toolCallId="c1", title="Bash", status="in_progress")
    talk.update("usage_update", used=1, size=2)
    talk.update("plan", entries=[{"content": "x", "status": "pending"}])
    assert not talk.events and not talk.driver.open_calls and not talk.driver.accepted
    talk.receive(id=1, result={})
    talk.receive(id=2, result={"stopReason": "cancelled"})
    proof, *rest = talk.events
    assert proof[1]["code"] == "resumed" and rest == [("user", {"text": "do it"})]
    assert (
        talk.driver.final is not None and talk.driver.final.answer is None and talk.driver.final.usage == {}
    )
    assert not talk.driver.on_eof().entries


def test_the_late_replay_of_gemini_is_waited_for() -> None:
    talk = Talk(job(resume=True))
    info = {"name": "gemini-cli"}
    can = {"loadSession": True}
    talk.receive(id=0, result={"protocolVersion": 1, "agentCapabilities": can, "agentInfo": info})
    talk.say("old prompt", "user_message_chunk")
    out = talk.receive(id=1, result={"modes": {}})
    assert [type(entry) for entry in out.entries] == [SeeToken, NewEvent] and not out.sends
    assert talk.driver.interrupt() is None
    talk.say("old answer")
    out = talk.update("available_commands_update", availableCommands=[])
    assert len(out.sends) == 1 and talk.sent[-1]["method"] == "session/prompt"
    talk.say("new answer")
    talk.receive(id=2, result={"stopReason": "end_turn"})
    assert talk.events[1:] == [("user", {"text": "do it"}), ("assistant", {"text": "new answer"})]


def test_a_fork_is_a_conversation_of_its_own_or_a_failure() -> None:
    forking = AgentJob(
        agent="any", session="s", task="t1", prompt="do it", cwd="/w", program=("x",), fork_of="ses_old"
    )
    can: dict[str, Any] = {"sessionCapabilities": {"fork": {}}}
    talk = Talk(forking)
    talk.receive(id=0, result={"protocolVersion": 1, "agentCapabilities": can})
    assert (talk.sent[-1]["method"], talk.sent[-1]["params"]["sessionId"]) == ("session/fork", "ses_old")
    out = talk.receive(id=1, result={"sessionId": "ses_new"})
    assert out.entries == [SeeToken(agent="any", native_id="ses_new", protocol="acp", seen_in="stream")]
    for answer in ({"result": {"sessionId": "ses_old"}}, {"error": {"code": -32601, "message": "no"}}):
        talk = Talk(forking)
        talk.receive(id=0, result={"protocolVersion": 1, "agentCapabilities": can})
        talk.receive(id=1, **answer)
        assert talk.events[-1][1]["code"] == "fork_failed" and talk.driver.final is not None
        assert not talk.driver.final.ok and len(talk.sent) == 2, "the prompt is not sent"
    talk = Talk(forking)
    talk.receive(id=0, result={"protocolVersion": 1, "agentCapabilities": {}})
    assert talk.events[-1][1]["code"] == "fork_failed"


@pytest.mark.parametrize("can", [CAPABLE, {"loadSession": True}])
def test_an_error_on_resuming_never_begins_a_new_conversation(can: dict[str, Any]) -> None:
    talk = Talk(job(resume=True))
    talk.receive(id=0, result={"protocolVersion": 1, "agentCapabilities": can})
    talk.receive(id=1, error={"code": -32002, "message": "Resource not found"})
    assert [sent["method"] for sent in talk.sent] == ["initialize", talk.sent[1]["method"]]
    assert talk.entries == [NewEvent("error", {"text": "Resource not found", "code": "resume_failed"})]
    assert talk.driver.final is not None and not talk.driver.final.ok and talk.driver.native_id is None


def test_another_session_than_the_one_asked_for_gets_no_prompt() -> None:
    talk = Talk(job(resume=True))
    talk.receive(id=0, result={"protocolVersion": 1, "agentCapabilities": CAPABLE})
    talk.receive(id=1, result={"sessionId": "ses_other"})
    assert len(talk.sent) == 2 and talk.events[-1][1]["code"] == "resume_failed"


# --- stopping


def test_interrupt_cancels_and_answers_what_waits() -> None:
    talk = Talk().begin()
    call = {"toolCallId": "c1", "title": "x", "rawInput": {"command": "x"}}
    talk.ask(0, call, "allow_once", "reject_once")
    out = talk.take(talk.driver.interrupt())
    assert not out.entries and not talk.driver.pending_permissions
    assert talk.sent[-2] == {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": NATIVE}}
    assert talk.sent[-1] == {"jsonrpc": "2.0", "id": 0, "result": {"outcome": {"outcome": "cancelled"}}}
    assert talk.driver.interrupt() == DriverOutput() and talk.driver.answer("0", "allow") == DriverOutput()
    talk.ask(1, {"toolCallId": "c2", "title": "y"}, "allow_once")
    assert talk.sent[-1]["id"] == 1 and talk.sent[-1]["result"]["outcome"] == {"outcome": "cancelled"}
    assert talk.events[-1][1]["answer"] == "cancelled" and not talk.driver.pending_permissions
    talk.receive(id=2, result={"stopReason": "cancelled"})
    assert talk.driver.final is not None and talk.driver.final.cancelled
    ends = talk.take(talk.driver.on_eof()).entries
    assert [(e.body["call"], e.body["outcome"]) for e in ends if isinstance(e, NewEvent)] == [
        ("c1", "interrupted"),
        ("c2", "interrupted"),
    ]
    assert all("did not run" in e.body["output"] for e in ends if isinstance(e, NewEvent))


def test_a_policy_does_not_allow_after_a_stop() -> None:
    talk = Talk(job("allow")).begin()
    talk.say("x")
    talk.take(talk.driver.interrupt())
    talk.ask(0, {"toolCallId": "c1", "title": "x"}, "allow_once")
    assert talk.sent[-1]["result"]["outcome"] == {"outcome": "cancelled"}


def test_a_command_that_was_broken_off_did_not_end_well() -> None:
    talk = Talk().begin()
    talk.update("tool_call", toolCallId="c1", title="sleep 9", status="in_progress")
    talk.take(talk.driver.interrupt())
    talk.update("tool_call_update", toolCallId="c1", status="completed", rawOutput="User aborted the command")
    assert talk.events[-1][1]["outcome"] == "interrupted"
    assert talk.events[-1][1]["output"] == "User aborted the command"


def test_the_end_says_of_each_open_call_what_is_known() -> None:
    talk = Talk().begin()
    talk.update("tool_call", toolCallId="ran", title="x", status="in_progress", rawInput={"command": "x"})
    talk.update("tool_call", toolCallId="announced", title="Bash", status="pending")
    for number, call in enumerate(("asked", "denied", "allowed")):
        talk.ask(number, {"toolCallId": call, "title": "x"}, "allow_once", "reject_once")
    talk.take(talk.driver.answer("1", "deny"))
    talk.take(talk.driver.answer("2", "allow"))
    ends = {
        e.body["call"]: (e.body["outcome"], e.body["output"], e.origin)
        for e in talk.take(talk.driver.on_eof()).entries
        if isinstance(e, NewEvent) and e.kind == "tool_summary"
    }
    unknown = "The agent ended without reporting a result; the tool may have run."
    assert ends == {
        "ran": ("interrupted", unknown, None),
        "announced": ("interrupted", unknown, None),
        "asked": ("interrupted", "Permission was never answered, so the tool did not run.", None),
        "denied": ("error", "Permission was denied, so the tool did not run.", None),
        "allowed": ("interrupted", unknown, None),
    }
    begun = [body["call"] for kind, body in talk.events if kind == "tool_progress"]
    assert sorted(begun) == sorted(ends) and not talk.driver.open_calls and not talk.driver.on_eof().entries


# --- the odd


def test_a_plan_is_told_when_it_changes() -> None:
    talk = Talk().begin()
    steps = [{"content": "look", "status": "completed"}, {"content": "act", "status": "pending"}]
    talk.update("plan", entries=steps)
    talk.update("plan", entries=steps)
    talk.update("plan", entries=[])
    assert talk.events[1:] == [("notice", {"text": "[x] look\n[ ] act", "code": "plan"})]


def test_unknown_things_are_told_and_extensions_are_not() -> None:
    talk = Talk().begin()
    talk.update("new_thing", x=1)
    talk.receive(method="session/other", params={})
    talk.receive(method="_auth/status_update", params={})
    talk.receive(id=99, result={})
    talk.update("agent_message_chunk", session="ses_child", content={"type": "text", "text": "x"})
    codes = [body.get("code") for kind, body in talk.events if kind == "notice"]
    assert codes == ["unknown_record", "unknown_record", "unknown_record", "other_session"]


@pytest.mark.parametrize("line", [b"", b"   ", b"\r"])
def test_blank_lines_say_nothing(line: bytes) -> None:
    assert AcpDriver(job()).on_line(line) == DriverOutput()


def test_a_line_that_is_no_json_is_a_notice() -> None:
    out = AcpDriver(job()).on_line(b"Ripgrep is not available.")
    assert [(e.kind, e.body["code"]) for e in out.entries if isinstance(e, NewEvent)] == [
        ("notice", "not_json")
    ]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(alphabet="ab\ud83d\ude00é", max_size=40), min_size=1, max_size=12), st.booleans())
def test_a_long_block_comes_in_marked_parts(chunks: list[str], thought: bool) -> None:
    """Whatever the chunks, the parts are the block; a character is not cut in two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(updates, "MAX_BLOCK", 10)
        talk = Talk().begin()
        for chunk in chunks:
            talk.say(chunk, "agent_thought_chunk" if thought else "agent_message_chunk")
        talk.receive(id=2, result={"stopReason": "end_turn"})
    kind = "thinking" if thought else "assistant"
    parts = [body for told, body in talk.events if told == kind]
    whole = join_surrogates("".join(chunks))
    assert join_surrogates("".join(body["text"] for body in parts)) == whole
    assert all(1 <= len(body["text"]) <= 10 for body in parts)
    if len(whole) <= 10:
        assert all("part" not in body for body in parts)
    elif len(parts) > 1:
        assert [body["part"] for body in parts] == list(range(1, len(parts) + 1))
        assert [body.get("more", False) for body in parts] == [True] * (len(parts) - 1) + [False]
    assert len(set(talk.origins)) == len(talk.origins)
    if parts and not thought:
        assert talk.driver.final is not None and talk.driver.final.answer == parts[0]["text"]


def test_what_a_terminal_printed_is_kept_up_to_a_limit_and_an_ended_call_keeps_nothing() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tool_calls, "MAX_PRINTED", 10)
        talk = Talk().begin()
        talk.update("tool_call", toolCallId="c", title="sh", status="in_progress", kind="execute")
        for _ in range(5):
            meta = {"terminal_output_delta": {"data": "abcd"}}
            talk.update("tool_call_update", toolCallId="c", _meta=meta)
        call = talk.driver._updates.calls.get("c")
        assert call is not None and len("".join(call.printed)) < 60
        talk.update("tool_call_update", toolCallId="c", status="completed")
    (output,) = [body["output"] for kind, body in talk.events if kind == "tool_summary"]
    assert output == "abcdabcdab\n[output truncated]"
    assert not call.printed and not call.fields and call.label == "execute"
