"""Tasks: one prompt run by one agent process, and who owns that run."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Status = Literal[
    "queued", "waiting", "running", "unreachable", "succeeded", "failed", "cancelled", "interrupted"
]
Delivery = Literal["waiting", "sent", "accepted"]

PENDING: frozenset[str] = frozenset({"queued", "waiting"})  # no owner, no process, no run slot
ACTIVE: frozenset[str] = frozenset({"running", "unreachable"})
ENDED: frozenset[str] = frozenset({"succeeded", "failed", "cancelled", "interrupted"})

# status -> what may follow by a status change; a claim is what makes a task running.
MAY_BECOME: dict[str, frozenset[str]] = {
    "queued": frozenset({"cancelled", "failed", "waiting"}),
    "waiting": frozenset({"cancelled", "failed", "waiting", "queued"}),
    "running": ENDED | {"unreachable", "queued"},  # queued: given back before the prompt was sent
    "unreachable": ENDED | {"running"},
    **{status: frozenset() for status in ENDED},
}


class Owner(msgspec.Struct, frozen=True):
    """The process that drives a task; a pid alone is reused, so its start and boot belong to it."""

    host: str
    pid: int
    started: float  # process start time, seconds since boot or epoch, as the platform tells it
    boot: str


class WaitingFor(msgspec.Struct, frozen=True):
    """Why a task waits, in its own words and for programs."""

    cause: str  # such as leftovers, owner, too_soon, person
    text: str
    since: str
    until: str | None = None  # when its policy decides; None: no policy applies


class QueueEntry(msgspec.Struct, frozen=True):
    """A task that runs, or waits for its turn: what is needed to say which may start."""

    task: str
    session: str
    agent: str
    host: str | None  # the session's
    status: Status
    generation: int
    owner: Owner | None
    lease_until: str | None
    options: dict[str, Any]
    not_before: str | None = None


class OpenTask(msgspec.Struct, frozen=True, array_like=True):
    """A task that has not ended."""

    id: str
    status: Status


class Task(msgspec.Struct, frozen=True):
    """One prompt and what became of it."""

    id: str
    session: str
    prompt: str
    status: Status
    queued_at: str
    delivery: Delivery = "waiting"
    options: dict[str, Any] = {}
    owner: Owner | None = None
    generation: int = 0
    lease_until: str | None = None
    spool: int = 0  # bytes of the agent's stdout that are in the log
    reason: str | None = None
    outcome: dict[str, Any] | None = None
    retry_of: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    waiting_for: WaitingFor | None = None  # while it is `waiting`
    not_before: str | None = None  # UTC; while it is `waiting`, if that time is known
