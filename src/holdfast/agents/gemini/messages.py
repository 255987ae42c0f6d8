"""One message of Gemini's: its text, its calls and their results."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import timestamps
from holdfast.model.json_codec import encode
from holdfast.transcripts.jsonl import word

INTERRUPTED = "[The previous response was interrupted before it completed.]"

_CONTEXT = ("<session_context>", "<hook_context>")
_OUTCOMES = {"success": "ok", "error": "error", "cancelled": "interrupted"}
_TEXT_KEYS = ("output", "error", "content", "text", "message")


class GeminiToolCall(msgspec.Struct, frozen=True):
    """One tool call, and its end if that is told."""

    id: str
    name: str
    input: Any
    outcome: str | None = None  # None: nothing tells that it ended
    output: str = ""
    at: str | None = None


class GeminiToolResponse(msgspec.Struct, frozen=True):
    """The result of a call, as a message in the user's name gives it to the model."""

    id: str
    name: str
    output: str
    failed: bool


def parts(content: Any) -> list[dict[str, Any]]:
    """The parts of a content, which may be a text, one part or a list of both."""
    if isinstance(content, str):
        return [{"text": content}]
    listed = content if isinstance(content, list) else [content]
    return [
        {"text": part} if isinstance(part, str) else part for part in listed if isinstance(part, (str, dict))
    ]


def text(message: dict[str, Any]) -> str:
    """What was said; what is neither text nor a call is named."""
    if isinstance(content := message.get("content"), str):
        return content
    return "".join(_shown(part) for part in parts(content))


def thoughts(message: dict[str, Any]) -> str:
    """What was thought, in the words in which Gemini streams it."""
    listed = message.get("thoughts")
    told = "".join(_thought(thought) for thought in listed) if isinstance(listed, list) else ""
    if told:
        return told
    inside = [part for part in parts(message.get("content")) if part.get("thought") is True]
    return "".join(word(part, "text") for part in inside)


def is_context(said: str) -> bool:
    """Whether a text in the user's name is the program's own."""
    return said.lstrip().startswith(_CONTEXT)


def told_calls(message: dict[str, Any]) -> list[GeminiToolCall]:
    """The calls that a message tells with their ends."""
    listed = message.get("toolCalls")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    return [_told(entry, f"{word(message, 'id')}:{number}") for number, entry in enumerate(entries)]


def asked_calls(message: dict[str, Any]) -> list[GeminiToolCall]:
    """The calls in a message's content: all that a resume keeps of them."""
    calls = []
    for number, part in enumerate(parts(message.get("content"))):
        if isinstance(asked := part.get("functionCall"), dict):
            id = word(asked, "id") or f"{word(message, 'id')}:{number}"
            calls.append(GeminiToolCall(id, word(asked, "name") or "unknown", asked.get("args")))
    return calls


def responses(message: dict[str, Any]) -> list[GeminiToolResponse]:
    """The results in a message's content."""
    return [_response(part) for part in parts(message.get("content")) if _is_response(part)]


def is_result(message: dict[str, Any]) -> bool:
    """Whether a message holds nothing but results."""
    listed = parts(message.get("content"))
    return bool(listed) and all(_is_response(part) for part in listed)


def _is_response(part: dict[str, Any]) -> bool:
    return isinstance(part.get("functionResponse"), dict)


def _response(part: dict[str, Any]) -> GeminiToolResponse:
    told = part["functionResponse"]
    response = told.get("response")
    failed = isinstance(response, dict) and bool(response.get("error")) and not response.get("output")
    return GeminiToolResponse(word(told, "id"), word(told, "name") or "unknown", _text_of(response), failed)


def _shown(part: dict[str, Any]) -> str:
    if part.get("thought") is True or "functionCall" in part or _is_response(part):
        return ""
    if isinstance(said := part.get("text"), str):
        return said
    kind = next((key for key in part if key not in ("thoughtSignature", "videoMetadata")), "")
    return f"[{kind}]" if kind else ""


def _thought(thought: Any) -> str:
    if not isinstance(thought, dict):
        return thought if isinstance(thought, str) else ""
    subject, description = word(thought, "subject"), word(thought, "description")
    return f"**{subject}**\n{description}" if subject or description else ""


def _told(entry: dict[str, Any], spare: str) -> GeminiToolCall:
    status, result = word(entry, "status"), entry.get("result")
    outcome = _OUTCOMES.get(status)
    if outcome is None and not status and result:
        outcome = "ok"
    return GeminiToolCall(
        word(entry, "id") or spare,
        word(entry, "name") or "unknown",
        entry.get("args"),
        outcome,
        _result(entry, result) if outcome is not None else "",
        timestamps.when_stamp(entry.get("timestamp")),
    )


def _result(entry: dict[str, Any], result: Any) -> str:
    if isinstance(result, str):
        return result
    told = [_response(part).output if _is_response(part) else _shown(part) for part in parts(result)]
    whole = "\n".join(piece for piece in told if piece)
    shown = entry.get("resultDisplay")
    return whole or (shown if isinstance(shown, str) else "")


def _text_of(response: Any) -> str:
    if isinstance(response, str):
        return response
    if isinstance(response, dict):
        for key in _TEXT_KEYS:
            if isinstance(found := response.get(key), str) and found:
                return found
    return encode(response).decode() if response else ""
