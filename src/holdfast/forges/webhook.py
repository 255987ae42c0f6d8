"""A delivery, from its bytes into the queue: each once, also across restarts.

A task's id follows from what was signed, so the queue itself is the memory of what was heard, and a body
that comes twice at once, whichever hub hears it, is one task. A forge may also send one event twice with one
id and two bodies, to two webhooks; so deliveries about one issue are heard one after the other.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from weakref import WeakValueDictionary

import msgspec

from holdfast.errors import NotFound, Unauthorized
from holdfast.forges import payload, prompts
from holdfast.forges import settings as signature
from holdfast.forges.payload import Assignment, IgnoredDelivery
from holdfast.forges.settings import Forge
from holdfast.model.task import Task
from holdfast.runner.context import Context
from holdfast.runner.dispatch import dispatch
from holdfast.store.types import Store


class NamedLocks:
    """A lock for each name, kept for as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        """The lock of that name."""
        return self._locks.setdefault(name, asyncio.Lock())


# --- A delivery, from its bytes into the queue: each once, also across restarts.

MAX_TASKS = 200  # of an issue's sessions, that are looked through for a delivery heard before


class QueuedTask(msgspec.Struct, frozen=True):
    """A task that a delivery came to."""

    task: str
    session: str
    key: str
    user: str
    replayed: bool  # it was heard before, and nothing was done


class DeliveryResult(msgspec.Struct, frozen=True):
    """What became of a delivery; the first task is named apart, for there is rarely another."""

    task: str | None = None
    session: str | None = None
    ignored: str | None = None  # why nothing follows from it
    dispatched: list[QueuedTask] = []


async def receive(
    context: Context, turns: NamedLocks, forge: Forge, headers: Mapping[str, str], body: bytes
) -> DeliveryResult:
    """Check a delivery and queue what follows from it; names of headers in lower case."""
    if not signature.is_signed(forge.kind, forge.secret, headers, body):
        raise Unauthorized(
            f"the signature is not that of forge {forge.name}",
            hint="the webhook's secret must be the one in config.toml",
        )
    event = payload.header_value(forge.kind, headers, "event")
    stamp = prompts.DeliveryId(
        payload.header_value(forge.kind, headers, "delivery")[:200], hashlib.sha256(body).hexdigest()
    )
    told = payload.read_delivery(event, body)
    if isinstance(told, IgnoredDelivery):
        return DeliveryResult(ignored=told.why)
    possible = prompts.threads(forge, told)
    if isinstance(possible, IgnoredDelivery):
        return DeliveryResult(ignored=possible.why)
    async with turns.of(f"{forge.name}:{told.repository}:{told.number}"):
        return await _queue(context, forge, told, stamp, possible)


async def _queue(
    context: Context,
    forge: Forge,
    told: Assignment,
    stamp: prompts.DeliveryId,
    possible: list[prompts.IssueThread],
) -> DeliveryResult:
    """What is not queued yet of a delivery."""
    known = {thread.key: await _heard(context.store, thread.key) for thread in possible}
    before = [
        QueuedTask(task.id, task.session, thread.key, thread.user, True)
        for thread in possible
        if (task := _same(forge, stamp, known[thread.key])) is not None
    ]
    begun = {key for key, tasks in known.items() if tasks}
    chosen = prompts.choose_threads(told, possible, begun)
    if before:  # of several, some may have been left out by a crash
        chosen = [thread for thread in possible if thread.key not in begun]
    if isinstance(chosen, IgnoredDelivery):
        return DeliveryResult(ignored=chosen.why)
    done = before
    for thread in chosen:
        wish = prompts.prompt_request(forge, told, thread, stamp)
        task = await dispatch(context, wish, by=f"{forge.name}:{told.sender}")
        done.append(QueuedTask(task.id, task.session, thread.key, thread.user, False))
    return _received(done)


def _received(dispatched: list[QueuedTask]) -> DeliveryResult:
    return DeliveryResult(dispatched[0].task, dispatched[0].session, None, dispatched)


async def _heard(store: Store, key: str) -> list[Task]:
    """The tasks of a thread, of all the sessions that it went on in."""
    found = (await store.sessions(state="all", key=key, empty=True, limit=MAX_TASKS)).sessions
    tasks = [task for one in reversed(found) for task in await store.tasks(session=one.id, limit=MAX_TASKS)]
    return tasks[-MAX_TASKS:]


def _same(forge: Forge, stamp: prompts.DeliveryId, tasks: list[Task]) -> Task | None:
    """The task of this delivery: by its id, or by what was signed, for the id is not."""
    for task in tasks:
        source = task.options.get("source")
        if not isinstance(source, dict) or source.get("forge") != forge.name:
            continue
        if stamp.delivery == source.get("delivery") or stamp.digest == source.get("digest"):
            return task
    return None


def get_forge(forges: Mapping[str, Forge], name: str) -> Forge:
    """The forge of that name."""
    if name not in forges:
        raise NotFound("there is no such forge in the config", hint="see docs/forges.md")
    return forges[name]
