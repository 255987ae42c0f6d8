"""A delivery on its way into the queue: each is queued once, even across restarts.

A task's id is derived from the signed body, so the queue itself records what was received, and a body that
arrives twice at once, at any hub, is one task. A forge may also send one event twice with one id and two
bodies, to two webhooks; so deliveries about one issue are handled one after the other.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from weakref import WeakValueDictionary

import msgspec

from holdfast.errors import NotFound, Unauthorized
from holdfast.forges import payload, prompts
from holdfast.forges.payload import Assignment, IgnoredDelivery
from holdfast.forges.settings import Forge, is_signed
from holdfast.model.task import Task
from holdfast.runner.context import Context
from holdfast.runner.dispatch import dispatch
from holdfast.store.store import Store


class NamedLocks:
    """A lock for each name, kept while somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        """The lock with that name."""
        return self._locks.setdefault(name, asyncio.Lock())


RECENT = 20  # sessions and tasks of a thread that are asked whether they overtook a delivery


class QueuedTask(msgspec.Struct, frozen=True):
    """A task that a delivery queued."""

    task: str
    session: str
    key: str
    user: str
    replayed: bool  # it was received before, and nothing was queued


class DeliveryResult(msgspec.Struct, frozen=True):
    """The result of a delivery; its first task, usually the only one, is also in fields of its own."""

    task: str | None = None
    session: str | None = None
    ignored: str | None = None  # why it starts nothing
    dispatched: list[QueuedTask] = []


async def receive(
    context: Context, locks: NamedLocks, forge: Forge, headers: Mapping[str, str], body: bytes
) -> DeliveryResult:
    """Check a delivery and queue its prompts; header names in lower case."""
    if not is_signed(forge.kind, forge.secret, headers, body):
        raise Unauthorized(
            f"the signature does not match the secret of forge {forge.name}",
            hint="the webhook's secret must equal the one in config.toml",
        )
    event = payload.header_value(forge.kind, headers, "event")
    stamp = prompts.DeliveryId(
        payload.header_value(forge.kind, headers, "delivery")[:200], hashlib.sha256(body).hexdigest()
    )
    delivery = payload.read_delivery(event, body)
    if isinstance(delivery, IgnoredDelivery):
        return DeliveryResult(ignored=delivery.why)
    possible = prompts.threads(forge, delivery)
    if isinstance(possible, IgnoredDelivery):
        return DeliveryResult(ignored=possible.why)
    async with locks.of(f"{forge.name}:{delivery.repository}:{delivery.number}"):
        return await _queue(context, forge, delivery, stamp, possible)


async def _queue(
    context: Context,
    forge: Forge,
    assignment: Assignment,
    stamp: prompts.DeliveryId,
    possible: list[prompts.IssueThread],
) -> DeliveryResult:
    """Queue what is not queued yet."""
    before = [
        QueuedTask(task.id, task.session, thread.key, thread.user, True)
        for thread in possible
        if (task := await _same(context.store, forge, thread, stamp)) is not None
    ]
    started = {thread.key for thread in possible if await context.store.key_has_tasks(thread.key)}
    overtaken = {
        key
        for key in started
        if assignment.surely and await _is_overtaken(context.store, forge, assignment, key)
    }
    chosen = prompts.choose_threads(assignment, possible, started, overtaken)
    if before:  # a crash may have left out some of several
        chosen = [thread for thread in possible if thread.key not in started]
    if isinstance(chosen, IgnoredDelivery):
        return DeliveryResult(ignored=chosen.why)
    done = before
    for thread in chosen:
        request = prompts.prompt_request(forge, assignment, thread, stamp)
        task = await dispatch(context, request, by=f"{forge.name}:{assignment.sender}")
        done.append(QueuedTask(task.id, task.session, thread.key, thread.user, False))
    return _received(done)


def _received(dispatched: list[QueuedTask]) -> DeliveryResult:
    return DeliveryResult(dispatched[0].task, dispatched[0].session, None, dispatched)


async def _same(
    store: Store, forge: Forge, thread: prompts.IssueThread, stamp: prompts.DeliveryId
) -> Task | None:
    """The task of this delivery: by the id that follows from its body, or by the delivery's own id."""
    try:
        return await store.task(prompts.task_id(forge, thread, stamp))
    except NotFound:
        pass
    for task in await store.delivered_tasks(thread.key, stamp.delivery) if stamp.delivery else ():
        if task.options["source"].get("forge") == forge.name:
            return task
    return None


async def _is_overtaken(store: Store, forge: Forge, told: Assignment, key: str) -> bool:
    """Whether the thread was started by a delivery that was sent after this one."""
    found = (await store.sessions(state="all", key=key, empty=True, limit=RECENT)).sessions
    tasks = [task for one in found for task in await store.latest_tasks(session=one.id, limit=RECENT)]
    sources = [task.options.get("source") for task in tasks]
    return any(
        isinstance(source, dict) and source.get("forge") == forge.name and prompts.overtakes(source, told)
        for source in sources
    )


def get_forge(forges: Mapping[str, Forge], name: str) -> Forge:
    """The forge with that name."""
    if name not in forges:
        raise NotFound("there is no such forge in the config", hint="see docs/forges.md")
    return forges[name]
