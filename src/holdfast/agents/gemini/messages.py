"""What text, calls and results does one of Gemini's messages hold?"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import timestamps
from holdfast.model.json_codec import encode
from holdfast.transcripts.jsonl import text_field

INTERRUPTED = "[The previous response was interrupted before it completed.]"

_CONTEXT = ("<session_context>", "<hook_context>")
_OUTCOMES = {"success": "ok", "error": "error", "cancelled": "interrupted"}
_TEXT_KEYS = ("output", "error", "content", "text", "message")


class GeminiToolCall(msgspec.Struct, frozen=True):
    """One tool call, and its result if there is one."""

    id: str
    name: str
    input: Any
    outcome: str | None = None  # None: no recorded end
    output: str = ""
    at: str | None = None


class GeminiToolResponse(msgspec.Struct, frozen=True):
    """The result of a call, as a message in the user's name sends it to the model."""

    id: str
    name: str
    output: str
    failed: bool


def parts(content: Any) -> list[dict[str, Any]]:
    """The parts of a content, which may be a text, one part, or a list of both."""
    if isinstance(content, str):
        return [{"text": content}]
    listed = content if isinstance(content, list) else [content]
    return [
        {"text": part} if isinstance(part, str) else part for part in listed if isinstance(part, (str, dict))
    ]


def text(message: dict[str, Any]) -> str:
    """The text; parts that are neither text nor a call are named by type."""
    if isinstance(content := message.get("content"), str):
        return content
    return "".join(_part_text(part) for part in parts(content))


def thoughts(message: dict[str, Any]) -> str:
    """The thoughts, worded as Gemini streams them."""
    listed = message.get("thoughts")
    joined = "".join(_thought(thought) for thought in listed) if isinstance(listed, list) else ""
    if joined:
        return joined
    inside = [part for part in parts(message.get("content")) if part.get("thought") is True]
    return "".join(text_field(part, "text") for part in inside)


def is_context(text: str) -> bool:
    """Whether a text in the user's name was written by the program."""
    return text.lstrip().startswith(_CONTEXT)


def completed_calls(message: dict[str, Any]) -> list[GeminiToolCall]:
    """The calls that a message records with their results."""
    listed = message.get("toolCalls")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    return [_told(entry, f"{text_field(message, 'id')}:{number}") for number, entry in enumerate(entries)]


def requested_calls(message: dict[str, Any]) -> list[GeminiToolCall]:
    """The calls in a message's content: all that a resume keeps of them."""
    calls = []
    for number, part in enumerate(parts(message.get("content"))):
        if isinstance(asked := part.get("functionCall"), dict):
            id = text_field(asked, "id") or f"{text_field(message, 'id')}:{number}"
            calls.append(GeminiToolCall(id, text_field(asked, "name") or "unknown", asked.get("args")))
    return calls


def responses(message: dict[str, Any]) -> list[GeminiToolResponse]:
    """The results in a message's content."""
    return [_response(part) for part in parts(message.get("content")) if _is_response(part)]


def is_result(message: dict[str, Any]) -> bool:
    """Whether a message holds only results."""
    listed = parts(message.get("content"))
    return bool(listed) and all(_is_response(part) for part in listed)


def _is_response(part: dict[str, Any]) -> bool:
    return isinstance(part.get("functionResponse"), dict)


def _response(part: dict[str, Any]) -> GeminiToolResponse:
    content = part["functionResponse"]
    response = content.get("response")
    failed = isinstance(response, dict) and bool(response.get("error")) and not response.get("output")
    return GeminiToolResponse(
        text_field(content, "id"), text_field(content, "name") or "unknown", _text_of(response), failed
    )


def _part_text(part: dict[str, Any]) -> str:
    if part.get("thought") is True or "functionCall" in part or _is_response(part):
        return ""
    if isinstance(text := part.get("text"), str):
        return text
    kind = next((key for key in part if key not in ("thoughtSignature", "videoMetadata")), "")
    return f"[{kind}]" if kind else ""


def _thought(thought: Any) -> str:
    if not isinstance(thought, dict):
        return thought if isinstance(thought, str) else ""
    subject, description = text_field(thought, "subject"), text_field(thought, "description")
    return f"**{subject}**\n{description}" if subject or description else ""


def _told(entry: dict[str, Any], spare: str) -> GeminiToolCall:
    status, result = text_field(entry, "status"), entry.get("result")
    outcome = _OUTCOMES.get(status)
    if outcome is None and not status and result:
        outcome = "ok"
    return GeminiToolCall(
        text_field(entry, "id") or spare,
        text_field(entry, "name") or "unknown",
        entry.get("args"),
        outcome,
        _result(entry, result) if outcome is not None else "",
        timestamps.when_stamp(entry.get("timestamp")),
    )


def _result(entry: dict[str, Any], result: Any) -> str:
    if isinstance(result, str):
        return result
    texts = [_response(part).output if _is_response(part) else _part_text(part) for part in parts(result)]
    whole = "\n".join(piece for piece in texts if piece)
    display = entry.get("resultDisplay")
    return whole or (display if isinstance(display, str) else "")


def _text_of(response: Any) -> str:
    if isinstance(response, str):
        return response
    if isinstance(response, dict):
        for key in _TEXT_KEYS:
            if isinstance(text := response.get(key), str) and text:
                return text
    return encode(response).decode() if response else ""
