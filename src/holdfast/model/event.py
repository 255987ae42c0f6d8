"""Events: the records of a session's log that say what was said and done."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import clock
from holdfast.errors import BadInput

# What a body has at least (design, section 3). `session`, `token` and `task` records are changes,
# written by their own calls, and so are not here.
BODY_HAS: dict[str, frozenset[str]] = {
    "user": frozenset({"text"}),
    "assistant": frozenset({"text"}),
    "thinking": frozenset({"text"}),
    "tool_progress": frozenset({"call", "name", "input"}),
    "tool_summary": frozenset({"call", "name", "outcome", "output"}),
    "permission": frozenset({"call"}),
    "notice": frozenset({"text", "code"}),
    "error": frozenset({"text", "code"}),
}
CONVERSATION = frozenset(BODY_HAS) - {"notice", "error"}
CHANGE_KINDS = frozenset({"session", "token", "task"})
OUTCOMES = ("ok", "error", "interrupted")  # not a set: an outcome may be anything, also unhashable


class Origin(msgspec.Struct, frozen=True):
    """Where an event was first seen; the same origin is never stored twice in a session."""

    agent: str
    native_id: str
    record_id: str


class NewEvent(msgspec.Struct, frozen=True):
    """An event on its way into a log."""

    kind: str
    body: dict[str, Any]
    at: str | None = None  # when it happened, if that is not now
    replayed: bool = False
    origin: Origin | None = None


class Event(msgspec.Struct, frozen=True):
    """One record of a session's log."""

    seq: int
    kind: str
    body: dict[str, Any]
    at: str
    task: str | None = None
    replayed: bool = False
    origin: Origin | None = None


def check(event: NewEvent) -> None:
    """Refuse an event whose kind or body is not of the vocabulary."""
    kind, body = event.kind, event.body
    needed = BODY_HAS.get(kind) if isinstance(kind, str) else None
    if needed is None:
        raise BadInput(f"«{kind}» is not an event kind that can be appended")
    if type(body) is not dict:
        raise BadInput(f"the body of a {kind} event must be an object")
    if not needed <= body.keys():
        missing = ", ".join(sorted(needed - body.keys()))
        raise BadInput(f"the body of a {kind} event needs {missing}")
    if kind == "tool_summary" and body["outcome"] not in OUTCOMES:
        raise BadInput("the outcome of a tool_summary is ok, error or interrupted")
    if event.at is not None and not clock.is_stamp(event.at):
        raise BadInput(f"«{event.at}» is not a time like 2026-01-31T12:00:00.000000Z")
