"""Which queued tasks may start now, and the lock that lets one worker at a time decide it."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from holdfast import durable_io
from holdfast.model.task import QueueEntry

LOCK_S, STEP_S = 2.0, 0.01  # to wait for another worker that holds the lock


class QueueCandidate(NamedTuple):
    """A task in the queue, as far as its turn goes."""

    task: str
    session: str
    agent: str


def startable(
    queued: Sequence[QueueCandidate],
    running: Iterable[QueueCandidate],
    at_once: int,
    limit_of: Callable[[str], int | None],
    held: Collection[str] = (),
) -> list[str]:
    """The tasks whose turn it is; one that must wait for its session or agent holds up none behind it.

    One that is `held` takes no slot; what is behind it in its session waits, too.
    """
    active = list(running)
    agents = Counter(task.agent for task in active)
    blocked = {task.session for task in active}
    due: list[str] = []
    for waiting in queued:
        if len(active) + len(due) >= at_once:
            break
        if waiting.session in blocked:
            continue
        if waiting.task in held:
            blocked.add(waiting.session)
            continue
        limit = limit_of(waiting.agent)
        if limit is not None and agents[waiting.agent] >= limit:
            continue
        due.append(waiting.task)
        agents[waiting.agent] += 1
        blocked.add(waiting.session)
    return due


def candidate(entry: QueueEntry) -> QueueCandidate:
    """What decides about an entry of the queue."""
    return QueueCandidate(entry.task, entry.session, entry.agent)


@asynccontextmanager
async def queue_lock(home: str) -> AsyncIterator[bool]:
    """Hold the lock of a home's queue: limits hold for all workers of this machine.

    False if another worker holds it for too long: it may be stopped, and what runs here must go on.
    """
    path = os.path.join(home, "queue.lock")
    with durable_io.reported(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for _ in range(round(LOCK_S / STEP_S)):
            if free := _lock(fd):
                break
            await asyncio.sleep(STEP_S)
        yield free
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
