"""What is on one line of a rollout, in any dialect?"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.transcripts.jsonl import text_field

STARTS = (b'{"timestamp":',)

_BARE = frozenset(  # before September 2025 an item was a whole line, without a wrapper
    {
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "local_shell_call",
        "custom_tool_call",
        "custom_tool_call_output",
        "web_search_call",
    }
)
_NEWER = {"turn_started": "task_started", "turn_complete": "task_complete"}


class CodexRecord(msgspec.Struct, frozen=True):
    """A record: its kind, its payload, and the wrapper's fields."""

    kind: str  # session_meta, turn_context, response_item, event_msg, compacted …; empty if unknown
    what: str  # the payload's own type, if it has one
    payload: dict[str, Any]
    at: Any  # timestamp, unparsed
    ordinal: int | None


def record(value: dict[str, Any]) -> CodexRecord:
    """Parse the record on a line."""
    kind, payload = text_field(value, "type"), value.get("payload")
    at, ordinal = value.get("timestamp"), value.get("ordinal")
    if not isinstance(payload, dict):
        kind, payload = _bare(kind, value), value
    what = text_field(payload, "type")
    if kind == "event_msg":
        what = _NEWER.get(what, what)
    return CodexRecord(kind, what, payload, at, ordinal if type(ordinal) is int else None)


def _bare(kind: str, value: dict[str, Any]) -> str:
    if kind in _BARE:
        return "response_item"
    if value.get("record_type") == "state":
        return "state"
    if not kind and isinstance(value.get("id"), str) and "timestamp" in value:
        return "session_meta"
    return ""


# --- Texts of messages, and who wrote them

# Text that the harness sends to the model in the user's name: how it begins and ends. A later Codex says in
# `provenance` who wrote a part; older versions leave only this.
_HARNESS = (
    ("<environment_context>", "</environment_context>"),
    ("<user_instructions>", "</user_instructions>"),
    ("# AGENTS.md instructions", "</INSTRUCTIONS>"),
    ("<skill>", "</skill>"),
    ("<codex_internal_context", "</codex_internal_context>"),
    ("<goal_context>", "</goal_context>"),
    ("<external_", ">"),
    ("<recommended_plugins>", "</recommended_plugins>"),
    ("<permissions instructions>", "</permissions instructions>"),
    ("<collaboration_mode>", "</collaboration_mode>"),
    ("<personality_spec>", "</personality_spec>"),
    ("<model_switch>", "</model_switch>"),
)
# The same, but worth a notice.
_TOLD = (
    ("<turn_aborted>", "</turn_aborted>", "turn_aborted_note"),
    ("<user_shell_command>", "</user_shell_command>", "local_command"),
    ("<subagent_notification>", "</subagent_notification>", "subagent"),
    ("<hook_prompt", "</hook_prompt>", "hook"),
)
_TEXTS = frozenset({"input_text", "output_text", "text", "Text", "summary_text", "reasoning_text"})


class CodexUserText(msgspec.Struct, frozen=True):
    """The parts of one user message: the person's text, and text of the harness that is worth a notice."""

    person: list[str]
    notices: list[tuple[str, str]]  # a notice's code and text


def texts(content: Any) -> list[str]:
    """The text of each part; other parts are named by type."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [text for part in parts if (text := _text(part))]


def user_text(payload: dict[str, Any]) -> CodexUserText:
    """Split a message in the user's name by author."""
    content = payload.get("content")
    parts = content if isinstance(content, list) else [content]
    whose = _provenance(payload)
    person: list[str] = []
    notices: list[tuple[str, str]] = []
    for number, part in enumerate(parts):
        text = _text(part)
        if not text:
            continue
        owner = whose[number] if number < len(whose) else ""
        code = "" if owner == "user" else _code(text)
        if code:
            notices.append((code, text))
        elif owner in ("", "user") and (owner or not _is_harness(text)):
            person.append(text)
    return CodexUserText(person, notices)


def summary_text(parts: Any) -> str:
    """The parts of a summary as one text."""
    return "\n".join(texts(parts))


def _text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    kind = text_field(part, "type")
    if isinstance(text := part.get("text"), str) and (kind in _TEXTS or not kind):
        return text
    return f"[{kind}]" if kind else ""


def _provenance(payload: dict[str, Any]) -> list[str]:
    passed = payload.get("internal_chat_message_metadata_passthrough")
    listed = passed.get("content_item_metadata") if isinstance(passed, dict) else None
    owners = []
    for item in listed if isinstance(listed, list) else []:
        provenance = item.get("provenance") if isinstance(item, dict) else None
        owners.append(text_field(provenance, "type") if isinstance(provenance, dict) else "")
    return owners


def _is_harness(text: str) -> bool:
    return any(_between(text, begin, end) for begin, end in _HARNESS)


def _code(text: str) -> str:
    return next((code for begin, end, code in _TOLD if _between(text, begin, end)), "")


def _between(text: str, begin: str, end: str) -> bool:
    inner = text.strip()
    return inner.startswith(begin) and inner.endswith(end)
