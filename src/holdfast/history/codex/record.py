"""One record of a rollout, whichever dialect wrote it."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.drive.line import word

STARTS = (b'{"timestamp":',)

_BARE = frozenset(  # before September 2025 an item stood in its line without anything around it
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


class Record(msgspec.Struct, frozen=True):
    """What kind of record, its payload, and what stands around it."""

    kind: str  # session_meta, turn_context, response_item, event_msg, compacted …; empty if it is none
    what: str  # the payload's own type, where it has one
    payload: dict[str, Any]
    at: Any  # as it is told
    ordinal: int | None


def record(value: dict[str, Any]) -> Record:
    """The record that a line holds."""
    kind, payload = word(value, "type"), value.get("payload")
    at, ordinal = value.get("timestamp"), value.get("ordinal")
    if not isinstance(payload, dict):
        kind, payload = _bare(kind, value), value
    what = word(payload, "type")
    if kind == "event_msg":
        what = _NEWER.get(what, what)
    return Record(kind, what, payload, at, ordinal if type(ordinal) is int else None)


def _bare(kind: str, value: dict[str, Any]) -> str:
    if kind in _BARE:
        return "response_item"
    if value.get("record_type") == "state":
        return "state"
    if not kind and isinstance(value.get("id"), str) and "timestamp" in value:
        return "session_meta"
    return ""
