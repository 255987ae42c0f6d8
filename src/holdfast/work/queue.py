"""Which queued tasks may start now: in order, within the limits, one at a time per session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Waiting(NamedTuple):
    """A queued task, as far as its turn goes."""

    task: str
    session: str
    agent: str


def startable(
    queued: Sequence[Waiting],
    running: Iterable[Waiting],
    at_once: int,
    limit_of: Callable[[str], int | None],
) -> list[str]:
    """The tasks whose turn it is; one that must wait for its session or agent holds up none behind it."""
    active = list(running)
    found = []
    for waiting in queued:
        if len(active) >= at_once:
            break
        limit = limit_of(waiting.agent)
        if limit is not None and sum(1 for a in active if a.agent == waiting.agent) >= limit:
            continue
        if any(a.session == waiting.session for a in active):
            continue
        found.append(waiting.task)
        active.append(waiting)
    return found
