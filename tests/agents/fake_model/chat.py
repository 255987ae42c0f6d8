"""OpenAI chat completions, as OpenCode and Kimi speak them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from tests.agents.fake_model.reply import Asked, Piece, Reply, sse, texts
from tests.agents.fake_model.script import Turn, Who

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
WHO: dict[str, Who] = {"user": "user", "assistant": "model", "tool": "result"}


def read(body: dict[str, Any]) -> Asked:
    """A request in our words."""
    turns = [
        Turn(WHO.get(message.get("role", ""), "other"), texts(message.get("content")))
        for message in body.get("messages") or []
    ]
    functions = [tool["function"] for tool in body.get("tools") or [] if "function" in tool]
    tools = {function["name"]: function.get("parameters") or {} for function in functions}
    return Asked(turns, tools, bool(body.get("stream")), _refusal(body.get("messages") or []))


def _refusal(messages: list[dict[str, Any]]) -> str | None:
    open_calls: list[str] = []
    for message in messages:
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in open_calls:
                return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return f"tool_call_ids did not have response messages: {', '.join(open_calls)}"
        else:
            open_calls = [call["id"] for call in message.get("tool_calls") or []]
    if open_calls:
        return f"tool_call_ids did not have response messages: {', '.join(open_calls)}"
    return None


def error(status: int, message: str) -> dict[str, Any]:
    """An error as this API words it."""
    return {
        "error": {"message": message, "type": "server_error" if status >= 500 else "invalid_request_error"}
    }


def whole(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    """The reply in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.think:
        message["reasoning_content"] = reply.think
    if reply.calls:
        message["tool_calls"] = _calls(reply)
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    return {**_base(body), "object": "chat.completion", "usage": USAGE, "choices": [choice]}


def stream(reply: Reply, body: dict[str, Any]) -> Iterator[Piece]:
    """The reply as it comes."""
    base = {**_base(body), "object": "chat.completion.chunk"}

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return sse({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield event({"role": "assistant", "content": ""})
    yield from reply.opened()
    if reply.think:
        yield event({"reasoning_content": reply.think})
    for piece in reply.deltas(reply.text or ""):
        yield event({"content": piece}) if isinstance(piece, str) else piece
    for call in _calls(reply):
        function = call["function"]
        yield event({"tool_calls": [{**call, "function": {"name": function["name"], "arguments": ""}}]})
        arguments = {"index": call["index"], "function": {"arguments": function["arguments"]}}
        yield event({"tool_calls": [arguments]})
    yield event({}, _finish(reply))
    yield sse({**base, "choices": [], "usage": USAGE})
    yield sse("[DONE]")


def _calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {
            "index": at,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.args)},
        }
        for at, call in enumerate(reply.calls)
    ]


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _base(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex[:24]}",
        "created": int(time.time()),
        "model": body.get("model"),
    }
