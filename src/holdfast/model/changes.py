"""Changes: the records that move a session, its tokens or its tasks.

One Struct is at once what a caller hands in, the body of the record in the log, and what `fold`
reads back; there is no second form to keep level.
"""

from __future__ import annotations

from typing import Any, Union

import msgspec

from holdfast.model.session import Link, Worktree
from holdfast.model.task import Delivery, Owner, Status, WaitingFor


class Change(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", omit_defaults=True):
    """Base of all changes."""


# --- kind `session`


class Create(Change, frozen=True, tag="create"):
    """The first record of every log."""

    agent: str
    key: str | None = None
    cwd: str | None = None
    host: str | None = None
    title: str | None = None
    worktree: Worktree | None = None
    link: Link | None = None
    metadata: dict[str, Any] = {}


class PatchMetadata(Change, frozen=True, tag="metadata"):
    """A JSON merge patch on the version that the caller saw."""

    patch: dict[str, Any]
    version: int


class Describe(Change, frozen=True, tag="describe"):
    """Set what is given of title, cwd, worktree, link and key; leave the rest."""

    title: str | msgspec.UnsetType | None = msgspec.UNSET
    cwd: str | msgspec.UnsetType = msgspec.UNSET
    worktree: Worktree | msgspec.UnsetType | None = msgspec.UNSET
    link: Link | msgspec.UnsetType = msgspec.UNSET
    key: str | msgspec.UnsetType | None = msgspec.UNSET


class Archive(Change, frozen=True, tag="archive"):
    """Put the session away; its key is free again, its token stays."""

    by: str
    reason: str


class Unarchive(Change, frozen=True, tag="unarchive"):
    """Take it out again."""

    by: str


class Delete(Change, frozen=True, tag="delete"):
    """Into the trash; `id` is also in the tombstone that was written before."""

    id: str
    by: str
    reason: str


class Restore(Change, frozen=True, tag="restore"):
    """Out of the trash; `undoes` is the id of the deletion."""

    by: str
    undoes: str


# --- kind `token`


class SeeToken(Change, frozen=True, tag="seen"):
    """The agent named its id for this conversation."""

    agent: str
    native_id: str
    seen_in: str
    protocol: str | None = None
    instead_of: str | None = None  # the id that was asked for; that one stays current
    by: str | None = None  # the person who recorded it, if one did


class RevokeToken(Change, frozen=True, tag="revoke"):
    """The current token must not be resumed, for a reason."""

    agent: str
    native_id: str
    reason: str
    by: str | None = None


class ReinstateToken(Change, frozen=True, tag="reinstate"):
    """A revocation is taken back."""

    agent: str
    native_id: str
    reason: str
    by: str | None = None


# --- kind `task`; `task` is the record's own field


class QueueTask(Change, frozen=True, tag="queue"):
    """A prompt waits to be run."""

    prompt: str
    options: dict[str, Any] = {}
    retry_of: str | None = None


class ClaimTask(Change, frozen=True, tag="claim"):
    """One owner takes it; the generation rises."""

    owner: Owner
    generation: int
    lease_until: str


class SetStatus(Change, frozen=True, tag="status"):
    """It went on to that status."""

    status: Status
    reason: str | None = None
    outcome: dict[str, Any] | None = None
    waiting_for: WaitingFor | None = None  # with `waiting`, and only with it
    not_before: str | None = None


class Deliver(Change, frozen=True, tag="deliver"):
    """How far the prompt has come to the agent."""

    delivery: Delivery


SessionChange = Union[Create, PatchMetadata, Describe, Archive, Unarchive, Delete, Restore]
TokenChange = Union[SeeToken, RevokeToken, ReinstateToken]
TaskChange = Union[QueueTask, ClaimTask, SetStatus, Deliver]

SHAPES: dict[str, Any] = {"session": SessionChange, "token": TokenChange, "task": TaskChange}
KIND_OF: dict[type[Change], str] = {shape: kind for kind, union in SHAPES.items() for shape in union.__args__}
