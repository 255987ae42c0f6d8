"""Events: the records of a session's log that say what was said and done."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast import timestamps
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
    if event.at is not None and not timestamps.is_stamp(event.at):
        raise BadInput(f"«{event.at}» is not a time like 2026-01-31T12:00:00.000000Z")


# --- Records: the log as it is stored and mirrored, bodies still as JSON text.


class Record(NamedTuple):
    """One record of a log, the same in the database, in a mirror and in `fold`."""

    seq: int
    kind: str
    at: str
    task: str | None
    replayed: bool
    origin: str | None  # the Origin as JSON text
    spool: int | None  # on the last record of a commit: the task's spool offset after it
    last: bool  # the last record of its commit
    body: str  # JSON text
