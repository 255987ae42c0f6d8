"""Whether the hub is well, and what was put right at its start."""

from __future__ import annotations

import datetime
import os
import resource
import sys
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from litestar import get
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse

from holdfast import __version__
from holdfast.errors import HoldfastError
from holdfast.hub.api.responses import TheHub, fails, raw, told
from holdfast.hub.state import HealReport, HubFailure
from holdfast.model.task import Task
from holdfast.shortage import Shortage
from holdfast.store import types

# opening: the store is being opened again; short: this machine lacks something
HealthStatus = Literal["ok", "opening", "short"]


class Health(msgspec.Struct, frozen=True):
    """A sign of life."""

    status: HealthStatus
    version: str
    started_at: str
    store: str
    healed: HealReport | None
    failure: HubFailure | None  # while `opening`: why; while `ok`: what is over
    shortage: Shortage | None  # while `short`: what is lacking; queued tasks wait for it


@get("/healthz", operation_id="health", summary="Whether the hub is well", responses=fails())
async def health(hub: TheHub) -> Health:
    """Asks nothing of the store."""
    shortage = hub.shortage()
    status: HealthStatus = "opening" if not hub.is_open else "ok" if shortage is None else "short"
    return Health(status, __version__, hub.started_at, hub.location.kind, hub.healed, hub.failure, shortage)


ROUTES = [health]


# --- Numbers for Prometheus.

KIND = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[dict[str, str], float]


@get(
    "/metrics",
    operation_id="metrics",
    summary="Numbers for Prometheus",
    responses={**told(200, str, "text/plain"), **fails()},
)
async def metrics(hub: TheHub) -> ASGIResponse:
    """In its text format; without those of the store while that does not answer."""
    parts = [
        _metric("info", "gauge", [({"version": __version__, "store": hub.location.kind}, 1)]),
        _metric("subscribers", "gauge", [({}, hub.feed.subscribers)]),
        _metric("events_total", "counter", [({}, hub.feed.events)]),
        _metric(
            "requests_total", "counter", [({"status": str(code)}, n) for code, n in hub.requests.items()]
        ),
        _metric(
            "not_resumed_total",
            "counter",
            [({"reason": code}, n) for code, n in sorted(hub.fresh_starts.count.items())],
        ),
        _metric("failures_total", "counter", [({}, hub.failure.times if hub.failure else 0)]),
        _metric("memory_bytes", "gauge", [({}, _memory())]),
    ]
    try:
        found = await hub.store.overview("~", 1)
    except HoldfastError:
        parts.append(_metric("store_up", "gauge", [({}, 0)]))
    else:
        parts.append(_metric("store_up", "gauge", [({}, 1)]))
        sessions = [({"state": count.kind, "agent": count.of}, count.many) for count in found.sessions]
        tasks = [({"status": count.kind, "agent": count.of}, count.many) for count in found.tasks]
        parts += [_metric("sessions", "gauge", sessions), _metric("tasks", "gauge", tasks)]
    return raw("".join(parts).encode(), kind=KIND)


def _metric(name: str, kind: str, samples: Iterable[tuple[dict[str, str], float]]) -> str:
    lines = [f"# TYPE holdfast_{name} {kind}\n"]
    for labels, value in samples:
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"holdfast_{name}{{{inner}}} {value}\n" if inner else f"holdfast_{name} {value}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _memory() -> int:
    """What this process holds now; where the platform does not tell that, the most it ever held."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


METRICS_ROUTES = [metrics]


# --- All at a glance: what ended on each day, what is here, and what was interrupted.

INTERRUPTED = 100  # that are told


class DayCounts(msgspec.Struct, frozen=True):
    """How the tasks ended that ended on a day (UTC)."""

    day: str
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    interrupted: int = 0


ENDS = DayCounts.__struct_fields__[1:]  # a damaged row may have another word


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


class OverviewReport(msgspec.Struct, frozen=True):
    """All at a glance."""

    days: list[DayCounts]  # the oldest first; each has its place, also when nothing ended
    agents: list[AgentCount]
    sessions: SessionCount
    interrupted: list[Task]  # last tasks of live sessions: the latest 100
    waiting: int  # how many of these there are
    running: int
    unreachable: int
    queued: int
    held: int  # tasks that are `waiting`
    healed: HealReport | None


@get("/api/overview", operation_id="overview", summary="All at a glance", responses=fails())
async def overview(hub: TheHub, days: Annotated[int, QueryParameter(ge=1, le=366)] = 14) -> OverviewReport:
    """In numbers, of the last `days` days."""
    today = datetime.datetime.now(datetime.UTC).date()
    wanted = [str(today - datetime.timedelta(days=back)) for back in reversed(range(days))]
    return _told(await hub.store.overview(wanted[0], INTERRUPTED), wanted, hub.healed)


def _told(found: types.StoreOverview, days: list[str], healed: HealReport | None) -> OverviewReport:
    agents = sorted({count.of for count in found.sessions})
    present = [count for count in found.sessions if count.kind != "deleted"]
    by_status = {
        status: [count for count in found.tasks if count.kind == status]
        for status in ("running", "unreachable", "queued", "waiting")
    }
    states = ("live", "archived", "deleted")
    return OverviewReport(
        days=[
            DayCounts(day, **{c.kind: c.many for c in found.days if c.of == day and c.kind in ENDS})
            for day in days
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
        running=_all(by_status["running"]),
        unreachable=_all(by_status["unreachable"]),
        queued=_all(by_status["queued"]),
        held=_all(by_status["waiting"]),
        healed=healed,
    )


def _all(counts: list[types.Count]) -> int:
    return sum(count.many for count in counts)


def _sum(counts: list[types.Count], agent: str) -> int:
    return sum(count.many for count in counts if count.of == agent)


OVERVIEW_ROUTES = [overview]
