"""The ACP driver against any order, any cut and any rubbish."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agents.acp.driver import AcpDriver
from holdfast.agents.driver import AgentJob, DriverOutput
from holdfast.model.event import NewEvent, check
from holdfast.model.json_codec import encode

NATIVE = "ses_0123456789ab"
STARTS = [
    {"id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}},
    {"id": 1, "result": {"sessionId": NATIVE}},
]
CALLS = st.sampled_from(["c1", "c2", "0:call_8e17bf630d"])
TEXT = st.text(max_size=6)


def _update(kind: str, **fields: Any) -> dict[str, Any]:
    told = {"sessionId": NATIVE, "update": {"sessionUpdate": kind, **fields}}
    return {"method": "session/update", "params": told}


def _chunk(kind: str, message: str | None, text: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"content": {"type": "text", "text": text}}
    return _update(kind, **fields, **({} if message is None else {"messageId": message}))


CHUNKS = st.builds(
    _chunk,
    st.sampled_from(["agent_message_chunk", "agent_thought_chunk"]),
    st.sampled_from([None, "m1", "m2"]),
    TEXT,
)
TOOLS = st.builds(
    lambda kind, call, status, raw, said: _update(
        kind,
        toolCallId=call,
        status=status,
        rawInput=raw,
        content=[{"type": "content", "content": {"type": "text", "text": said}}],
    ),
    st.sampled_from(["tool_call", "tool_call_update"]),
    CALLS,
    st.sampled_from([None, "pending", "in_progress", "completed", "failed"]),
    st.sampled_from([None, {}, {"cwd": "/"}, {"command": "ls"}]),
    TEXT,
)
ASKS = st.builds(
    lambda call, number: {
        "id": number,
        "method": "session/request_permission",
        "params": {"toolCall": {"toolCallId": call}, "options": [{"optionId": "y", "kind": "allow_once"}]},
    },
    CALLS,
    st.integers(0, 3),
)
ENDS = st.sampled_from(
    [
        {"id": 2, "result": {"stopReason": "end_turn"}},
        {"id": 2, "error": {"code": -32603, "message": "no"}},
        _update("usage_update", used=1, size=2),
        _update("available_commands_update", availableCommands=[]),
    ]
)
TALK = st.lists(CHUNKS | TOOLS | ASKS | ENDS, max_size=25)
KEYS = re.findall(
    r"\w+",
    """
    id method params result error update sessionUpdate sessionId toolCallId toolCall options optionId kind
    status content rawInput rawOutput title messageId text type entries plan usage cost _meta quota name data
    agentInfo protocolVersion agentCapabilities sessionCapabilities stopReason code
    """,
)
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=3)
    | st.sampled_from([NATIVE, "c1", "completed"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)


def _job() -> AgentJob:
    return AgentJob(
        agent="any", session="s", task="t", prompt="do it", cwd="/w", program=("x",), permissions="allow"
    )


def _line(message: Any) -> bytes:
    return json.dumps(message).encode()


def _heard(driver: AcpDriver, messages: list[Any]) -> list[DriverOutput]:
    return [driver.start_messages(), *[driver.on_line(_line(message)) for message in (*STARTS, *messages)]]


def _checked(outs: list[DriverOutput]) -> list[NewEvent]:
    events = [entry for out in outs for entry in out.entries if isinstance(entry, NewEvent)]
    for event in events:
        check(event)
        encode(event)
    return events


@given(TALK)
def test_every_word_comes_out_once_and_in_order(talk: list[dict[str, Any]]) -> None:
    driver = AcpDriver(_job())
    events = _checked([*_heard(driver, talk), driver.on_eof()])
    for kind, told in (("assistant", "agent_message_chunk"), ("thinking", "agent_thought_chunk")):
        said = [m["params"]["update"] for m in talk if m.get("method") == "session/update"]
        expected = "".join(u["content"]["text"] for u in said if u["sessionUpdate"] == told)
        assert "".join(e.body["text"] for e in events if e.kind == kind) == expected


@given(TALK)
def test_every_call_begins_and_ends_once(talk: list[dict[str, Any]]) -> None:
    driver = AcpDriver(_job())
    events = _checked([*_heard(driver, talk), driver.on_eof()])
    begun = [e.body["call"] for e in events if e.kind == "tool_progress"]
    ended = [e.body["call"] for e in events if e.kind == "tool_summary"]
    assert sorted(begun) == sorted(ended) == sorted(set(begun))
    assert not driver.open_calls
    for call in begun:
        kinds = [e.kind for e in events if e.body.get("call") == call]
        assert kinds[0] == "tool_progress"
    assert [e.kind for e in events].count("user") <= 1
    if driver.accepted:
        assert next(e.kind for e in events) == "user"
    origins = [e.origin for e in events if e.origin is not None and e.kind != "permission"]
    assert len(origins) == len(set(origins))


@given(TALK, st.integers(0, 30))
def test_hearing_again_from_the_start_gives_the_same(talk: list[dict[str, Any]], cut: int) -> None:
    """What a restart does: entries of the first lines are kept, a new driver hears all lines again."""
    first, again = AcpDriver(_job()), AcpDriver(_job())
    before, whole = _heard(first, talk[:cut]), _heard(again, talk)
    assert before == whole[: len(before)]
    straight = AcpDriver(_job())
    assert [*before, *whole[len(before) :]] == _heard(straight, talk)
    assert straight.on_eof() == again.on_eof() and straight.final == again.final


@given(st.lists(ODD.map(_line) | st.binary(max_size=40), max_size=12), st.sampled_from([0, 1, 2]))
def test_rubbish_never_raises(lines: list[bytes], started: int) -> None:
    driver = AcpDriver(_job())
    outs = [driver.start_messages(), *[driver.on_line(_line(message)) for message in STARTS[:started]]]
    outs += [driver.on_line(line) for line in lines]
    outs += [driver.interrupt() or DriverOutput(), driver.on_eof()]
    _checked(outs)
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for out in outs for line in out.sends)


@settings(max_examples=50)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                ["sessionUpdate", "toolCallId", "status", "content", "rawInput", "rawOutput", "title"]
            ),
            ODD
            | st.sampled_from(["tool_call", "agent_message_chunk", "plan", "usage_update", "in_progress"]),
        ),
        max_size=10,
    )
)
def test_odd_updates_never_raise(updates: list[dict[str, Any]]) -> None:
    driver = AcpDriver(_job())
    messages = [{"method": "session/update", "params": {"sessionId": NATIVE, "update": u}} for u in updates]
    _checked([*_heard(driver, messages), driver.on_eof()])
