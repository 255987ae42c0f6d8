"""What a hub answers with, as far as a program needs names for it; `/schema` of a hub tells all of it."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

How = Literal["resume", "fork", "fresh", "anyway"]
Permissions = Literal["ask", "allow", "deny"]


class Dispatched(TypedDict):
    """Where a prompt went."""

    task: str
    session: str


class Session(TypedDict, total=False):
    """A session's header; lists leave out its metadata."""

    id: str
    agent: str
    state: str
    created_at: str
    updated_at: str
    key: str | None
    cwd: str | None
    host: str | None
    title: str | None
    metadata: dict[str, Any] | None
    version: int
    events: int
    messages: int
    tasks: int
    last_task: str | None
    last_status: str | None


class Task(TypedDict, total=False):
    """One prompt and what became of it."""

    id: str
    session: str
    prompt: str
    status: str
    queued_at: str
    started_at: str | None
    ended_at: str | None
    reason: str | None
    outcome: dict[str, Any] | None
    options: dict[str, Any]


class Event(TypedDict):
    """One record of a session's log."""

    seq: int
    kind: str
    body: dict[str, Any]
    at: str
    task: str | None
    replayed: bool
    origin: dict[str, Any] | None


class Verdict(TypedDict):
    """Whether a session may be gone on with, and why."""

    action: str
    reasons: list[dict[str, Any]]
    session: str
    token: Any


class Page(TypedDict):
    """Some sessions, and where the next ones begin."""

    sessions: list[Session]
    next: str | None
