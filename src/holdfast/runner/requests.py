"""What a person asks for: a prompt to run, or tasks to run again."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.agents.driver import Policy
from holdfast.settings import Leftovers

ResumeMode = Literal["resume", "fork", "fresh", "anyway"]


class PromptRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="wish", tag="prompt"):
    """A prompt and where it is to be run."""

    prompt: str
    agent: str | None = None
    cwd: str | None = None
    here: str | None = None  # where the person is: for a new session, if no cwd is given
    key: str | None = None
    session: str | None = None
    how: ResumeMode | None = None  # how to continue that session; None: by its verdict, in that session only
    fork: bool = False  # a copy is preferred to a new conversation, where the verdict allows both
    queue: bool = False  # behind what runs there; else that refuses it
    may_move: bool = False  # although a session is named, a fresh one may take its place
    brief: bool = True  # tell a fresh run of the one that was cut short
    worktree: bool = False
    permissions: Policy | None = None
    time_limit_s: float | None = None
    leftovers: Leftovers | None = None  # the policy for leftover processes, if not the configured one
    task: str | None = None  # the id its task is to have: the same request sent twice is one task
    source: dict[str, Any] = {}  # where it comes from, kept with the task


class RedispatchRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="wish", tag="again"):
    """Tasks to run again, each once, each by its session's verdict; by default all interrupted ones."""

    key: str | None = None  # only of this thread
    names: tuple[str, ...] = ()  # only these: ids of tasks, or sessions or keys (their last task)
    failed: bool = False  # failed tasks, too; those that are named may always have failed
    wait: bool = False  # where a session must wait, queue it: it runs when the session becomes free
