"""Numbers for Prometheus."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterable

from litestar import get
from litestar.response.base import ASGIResponse

from holdfast import __version__
from holdfast.errors import HoldfastError
from holdfast.hub.answers import fails, raw, told
from holdfast.hub.given import TheHub

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


ROUTES = [metrics]
