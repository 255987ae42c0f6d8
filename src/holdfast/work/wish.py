"""What a person wants done."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.drive.driver import Policy

How = Literal["resume", "fork", "fresh", "anyway"]


class Wish(msgspec.Struct, frozen=True, kw_only=True, tag_field="wish", tag="prompt"):
    """A prompt and where it is to be run."""

    prompt: str
    agent: str | None = None
    cwd: str | None = None
    here: str | None = None  # where the person is: for a new session, if no cwd is given
    key: str | None = None
    session: str | None = None
    how: How | None = None  # how to go on with that session; None: as for a key, but in no other session
    fork: bool = False  # a copy is preferred to a new conversation, where the verdict allows both
    queue: bool = False  # behind what runs there; else that refuses it
    brief: bool = True  # tell a fresh run of the one that was cut short
    worktree: bool = False
    permissions: Policy | None = None
    time_limit_s: float | None = None
    task: str | None = None  # the id its task is to have: the same wish sent twice is one task
    source: dict[str, Any] = {}  # where it comes from, kept with the task


class Again(msgspec.Struct, frozen=True, kw_only=True, tag_field="wish", tag="again"):
    """That interrupted tasks be run once more, each by its verdict."""

    key: str | None = None  # only of this thread
