"""The Anthropic Messages API."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from tests.agents.fake_model.history import blocks, refusal, signature
from tests.agents.fake_model.reply import Asked, Drop, Pause, Piece, Reply, sse
from tests.agents.fake_model.script import Turn

USAGE = {
    "input_tokens": 100,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 10,
    "service_tier": "standard",
}
EMPTY: dict[str, dict[str, Any]] = {  # how a block begins
    "thinking": {"thinking": "", "signature": ""},
    "text": {"text": ""},
    "tool_use": {"input": {}},
}


def read(body: dict[str, Any]) -> Asked:
    """A request in our words."""
    messages = body.get("messages") or []
    turns = [turn for message in messages for turn in _turns(message)]
    tools = {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or []}
    return Asked(turns, tools, bool(body.get("stream")), refusal(messages))


def _turns(message: dict[str, Any]) -> Iterator[Turn]:
    if message.get("role") == "assistant":
        yield Turn("model")
    elif message.get("role") == "user":
        for block in blocks(message):
            if block.get("type") == "tool_result":
                yield Turn("result")
            elif block.get("type") == "text":
                yield Turn("user", block.get("text") or "")


def error(status: int, message: str) -> dict[str, Any]:
    """An error as this API words it."""
    kind = "invalid_request_error" if status < 500 else "api_error"
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"}


def whole(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    """The reply in one piece."""
    return _message(body, _content(reply), _stop(reply))


def stream(reply: Reply, body: dict[str, Any]) -> Iterator[Piece]:
    """The reply as it comes."""
    yield _event("message_start", message=_message(body, [], None))
    yield _event("ping")
    yield from reply.opened()
    for at, block in enumerate(_content(reply)):
        yield _event("content_block_start", index=at, content_block={**block, **EMPTY[block["type"]]})
        yield from _deltas(reply, at, block)
        yield _event("content_block_stop", index=at)
    yield _event("message_delta", delta={"stop_reason": _stop(reply), "stop_sequence": None}, usage=USAGE)
    yield _event("message_stop")


def _deltas(reply: Reply, at: int, block: dict[str, Any]) -> Iterator[Piece]:
    def delta(kind: str, **what: str) -> bytes:
        return _event("content_block_delta", index=at, delta={"type": kind, **what})

    if block["type"] == "thinking":
        yield delta("thinking_delta", thinking=block["thinking"])
        yield delta("signature_delta", signature=block["signature"])
    elif block["type"] == "tool_use":
        yield delta("input_json_delta", partial_json=json.dumps(block["input"]))
    else:
        for piece in reply.deltas(block["text"]):
            yield piece if isinstance(piece, (Pause, Drop)) else delta("text_delta", text=piece)


def _content(reply: Reply) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    if reply.think:
        content.append({"type": "thinking", "thinking": reply.think, "signature": signature(reply.think)})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for call in reply.calls:
        content.append({"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": call.args})
    return content


def _stop(reply: Reply) -> str:
    return "tool_use" if reply.calls else "end_turn"


def _message(body: dict[str, Any], content: list[dict[str, Any]], stop: str | None) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "fake-model"),
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": USAGE,
    }


def _event(kind: str, **what: Any) -> bytes:
    return sse({"type": kind, **what}, kind)
