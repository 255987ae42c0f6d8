"""Gemini's generateContent and streamGenerateContent."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from tests.agents.fake_model.reply import Asked, Piece, Reply, sse
from tests.agents.fake_model.script import Turn
from tests.agents.fake_model.tools import Tools, filled

USAGE = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}


def read(body: dict[str, Any]) -> Asked:
    """A request in our words; whether it streams is in its path, so the server says that."""
    turns = [turn for content in body.get("contents") or [] for turn in _turns(content)]
    tools: Tools = {}
    for tool in body.get("tools") or []:
        for known in tool.get("functionDeclarations") or []:
            tools[known["name"]] = known.get("parametersJsonSchema") or known.get("parameters") or {}
    return Asked(turns, tools, False)


def _turns(content: dict[str, Any]) -> Iterator[Turn]:
    if content.get("role") == "model":
        yield Turn("model")
        return
    for part in content.get("parts") or []:
        if "functionResponse" in part:
            yield Turn("result")
        elif part.get("text"):
            yield Turn("user", part["text"])


def error(status: int, message: str) -> dict[str, Any]:
    """An error as this API words it."""
    kind = "INTERNAL" if status >= 500 else "INVALID_ARGUMENT"
    return {"error": {"code": status, "message": message, "status": kind}}


def side_text(body: dict[str, Any]) -> str | None:
    """What a side request with a schema wants: routers and next-speaker checks parse the answer."""
    config = body.get("generationConfig") or {}
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    return json.dumps(filled(schema)) if schema else None


def whole(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    """The reply in one piece."""
    said = [{"text": reply.text}] if reply.text else []
    return _candidate(uuid.uuid4().hex[:16], [*_thought(reply), *said, *_calls(reply)], last=True)


def stream(reply: Reply, body: dict[str, Any]) -> Iterator[Piece]:
    """The reply as it comes."""
    name = uuid.uuid4().hex[:16]
    if reply.hang or (reply.drop and not reply.text):
        yield sse(_candidate(name, [{"text": ""}]))
    yield from reply.opened()
    if reply.think:
        yield sse(_candidate(name, _thought(reply)))
    for piece in reply.deltas(reply.text or ""):
        yield sse(_candidate(name, [{"text": piece}])) if isinstance(piece, str) else piece
    yield sse(_candidate(name, _calls(reply) or [{"text": ""}], last=True))


def _thought(reply: Reply) -> list[dict[str, Any]]:
    return [{"text": reply.think, "thought": True}] if reply.think else []


def _calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {"functionCall": {"name": call.name, "args": call.args}, "thoughtSignature": "ZmFrZQ=="}
        for call in reply.calls
    ]


def _candidate(name: str, parts: list[dict[str, Any]], *, last: bool = False) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    made: dict[str, Any] = {"candidates": [candidate], "modelVersion": "fake-model", "responseId": name}
    if last:
        candidate["finishReason"] = "STOP"
        made["usageMetadata"] = USAGE
    return made
