"""Sessions: one conversation thread of ours, as its log's headline."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.model.task import Status

State = Literal["live", "archived", "deleted"]


class Worktree(msgspec.Struct, frozen=True):
    """A git worktree that was made for the session."""

    path: str
    branch: str
    repo_root: str
    created_at: str


class ArchiveNote(msgspec.Struct, frozen=True):
    """Who archived the session, why and when."""

    by: str
    reason: str
    at: str


class Deletion(msgspec.Struct, frozen=True):
    """The tombstone: who deleted the session, why and when, and the deletion's own id."""

    id: str
    by: str
    reason: str
    at: str


class Link(msgspec.Struct, frozen=True):
    """The session that this one goes on from."""

    session: str
    relation: str  # fresh | fork | import


class Header(msgspec.Struct, frozen=True):
    """A session in a list: all about it but its events and its metadata."""

    id: str
    agent: str
    state: State
    created_at: str
    updated_at: str
    key: str | None
    cwd: str | None
    host: str | None
    title: str | None
    worktree: Worktree | None
    archive: ArchiveNote | None
    deletion: Deletion | None
    link: Link | None
    version: int
    undone: str | None
    events: int
    messages: int
    tasks: int
    last_task: str | None
    last_status: Status | None


class Session(msgspec.Struct, frozen=True):
    """A session's header: all about it but its events; it has no way to write."""

    id: str
    agent: str
    state: State
    created_at: str
    updated_at: str
    key: str | None = None
    cwd: str | None = None
    host: str | None = None
    title: str | None = None
    worktree: Worktree | None = None
    archive: ArchiveNote | None = None
    deletion: Deletion | None = None
    link: Link | None = None
    metadata: dict[str, Any] | None = None  # None only where the stored text cannot be read
    metadata_problem: str | None = None
    version: int = 1  # of the metadata
    undone: str | None = None  # the id of the last deletion that a restore took back
    events: int = 0  # records in the log
    messages: int = 0  # those of them that are conversation
    tasks: int = 0
    last_task: str | None = None
    last_status: str | None = None  # of that task


def is_empty(session: Session) -> bool:
    """Whether lists hide it: nothing said, nothing asked, no worktree to remember."""
    return not session.messages and not session.tasks and session.worktree is None
