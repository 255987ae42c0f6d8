"""All at a glance: what ended on each day, what is here, and what was interrupted."""

from __future__ import annotations

import datetime
from typing import Annotated

import msgspec
from litestar import get
from litestar.params import QueryParameter

from holdfast.hub.answers import fails
from holdfast.hub.given import TheHub
from holdfast.hub.hub import Healed
from holdfast.model.task import Task
from holdfast.store import contract

INTERRUPTED = 100  # that are told


class Day(msgspec.Struct, frozen=True):
    """How the tasks ended that ended on a day (UTC)."""

    day: str
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    interrupted: int = 0


class AgentCount(msgspec.Struct, frozen=True):
    """What an agent has here: its sessions that are not deleted, and the tasks of them that run."""

    agent: str
    sessions: int
    running: int


class SessionCount(msgspec.Struct, frozen=True):
    """Sessions by state; those in which nothing was said or asked are left out."""

    live: int = 0
    archived: int = 0
    deleted: int = 0


class Overview(msgspec.Struct, frozen=True):
    """All at a glance."""

    days: list[Day]  # the oldest first; each has its place, also when nothing ended
    agents: list[AgentCount]
    sessions: SessionCount
    interrupted: list[Task]  # last tasks of live sessions: the latest 100
    waiting: int  # how many of these there are
    running: int
    unreachable: int
    queued: int
    healed: Healed | None


@get("/api/overview", operation_id="overview", summary="All at a glance", responses=fails())
async def overview(hub: TheHub, days: Annotated[int, QueryParameter(ge=1, le=366)] = 14) -> Overview:
    """In numbers, of the last `days` days."""
    today = datetime.datetime.now(datetime.UTC).date()
    wanted = [str(today - datetime.timedelta(days=back)) for back in reversed(range(days))]
    return _told(await hub.store.overview(wanted[0], INTERRUPTED), wanted, hub.healed)


def _told(found: contract.Overview, days: list[str], healed: Healed | None) -> Overview:
    agents = sorted({count.of for count in found.sessions})
    present = [count for count in found.sessions if count.kind != "deleted"]
    by_status = {
        status: [count for count in found.tasks if count.kind == status]
        for status in ("running", "unreachable", "queued")
    }
    states = ("live", "archived", "deleted")
    return Overview(
        days=[
            Day(day, **{count.kind: count.many for count in found.days if count.of == day}) for day in days
        ],
        agents=[
            AgentCount(agent, _sum(present, agent), _sum(by_status["running"], agent))
            for agent in agents
            if _sum(present, agent)
        ],
        sessions=SessionCount(
            **{state: sum(count.many for count in found.sessions if count.kind == state) for state in states}
        ),
        interrupted=found.interrupted,
        waiting=found.waiting,
        **{status: sum(count.many for count in counts) for status, counts in by_status.items()},
        healed=healed,
    )


def _sum(counts: list[contract.Count], agent: str) -> int:
    return sum(count.many for count in counts if count.of == agent)


ROUTES = [overview]
