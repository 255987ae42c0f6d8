"""The OpenAI Responses API, as Codex speaks it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from tests.agents.fake_model.reply import Asked, Drop, MadeCall, Pause, Piece, Reply, sse, texts
from tests.agents.fake_model.script import Turn

USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 110,
}


def read(body: dict[str, Any]) -> Asked:
    """A request in our words."""
    given = body.get("input") or []
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    tools = {
        tool.get("name") or tool["type"]: tool.get("parameters") or {} for tool in body.get("tools") or []
    }
    return Asked([_turn(item) for item in items], tools, bool(body.get("stream")))


def _turn(item: dict[str, Any]) -> Turn:
    kind = item.get("type", "message")
    if kind == "message" and item.get("role") == "user":
        return Turn("user", texts(item.get("content")))
    if kind.endswith("_output"):
        return Turn("result")
    if kind in ("function_call", "reasoning", "custom_tool_call") or item.get("role") == "assistant":
        return Turn("model")
    return Turn("other")


def error(status: int, message: str) -> dict[str, Any]:
    """An error as this API words it."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "code": None}}


def whole(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    """The reply in one piece."""
    return {**_response(body), "status": "completed", "output": _items(reply), "usage": USAGE}


def stream(reply: Reply, body: dict[str, Any]) -> Iterator[Piece]:
    """The reply as it comes."""
    number = iter(range(1 << 30))

    def event(kind: str, **what: Any) -> bytes:
        return sse({"type": kind, "sequence_number": next(number), **what}, kind)

    response = _response(body)
    yield event("response.created", response={**response, "status": "in_progress", "output": []})
    yield from reply.opened()
    items = _items(reply)
    for at, item in enumerate(items):
        empty: dict[str, Any] = {key: [] for key in ("content", "summary") if key in item}
        begun = {**item, "status": "in_progress", **empty}
        yield event("response.output_item.added", output_index=at, item=begun)
        for kind, what in _deltas(reply, item):
            if isinstance(what, (Pause, Drop)):
                yield what
            else:
                yield event(f"response.{kind}", item_id=item["id"], output_index=at, **what)
        yield event("response.output_item.done", output_index=at, item=item)
    done = {**response, "status": "completed", "output": items, "usage": USAGE}
    yield event("response.completed", response=done)


def _deltas(reply: Reply, item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any] | Pause | Drop]]:
    if item["type"] == "reasoning":
        text = item["summary"][0]["text"]
        part: dict[str, Any] = {"type": "summary_text", "text": ""}
        yield "reasoning_summary_part.added", {"summary_index": 0, "part": part}
        yield "reasoning_summary_text.delta", {"summary_index": 0, "delta": text}
        yield "reasoning_summary_text.done", {"summary_index": 0, "text": text}
    elif item["type"] == "function_call":
        yield "function_call_arguments.delta", {"delta": item["arguments"]}
        yield "function_call_arguments.done", {"arguments": item["arguments"]}
    else:
        text = item["content"][0]["text"]
        part = {"type": "output_text", "text": "", "annotations": []}
        yield "content_part.added", {"content_index": 0, "part": part}
        for piece in reply.deltas(text):
            if isinstance(piece, str):
                yield "output_text.delta", {"content_index": 0, "delta": piece}
            else:
                yield "", piece
        yield "output_text.done", {"content_index": 0, "text": text}


def _items(reply: Reply) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.think:
        summary = [{"type": "summary_text", "text": reply.think}]
        items.append({"type": "reasoning", "id": _id("rs"), "summary": summary})
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        message = {"type": "message", "role": "assistant", "status": "completed", "content": content}
        items.append({**message, "id": _id("msg")})
    return [*items, *map(_call, reply.calls)]


def _call(call: MadeCall) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": _id("fc"),
        "call_id": call.id,
        "name": call.name,
        "arguments": json.dumps(call.args),
        "status": "completed",
    }


def _response(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": _id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "model": body.get("model"),
    }


def _id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex[:24]}"
