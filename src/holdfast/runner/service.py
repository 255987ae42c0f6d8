"""Opening a home for work, and the life of a worker."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from holdfast import config, durable_io, errors, settings
from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.process import identity
from holdfast.recovery.findings import Report
from holdfast.recovery.heal import open_healed
from holdfast.runner.context import Context
from holdfast.shortage import Shortages, raise_file_limit
from holdfast.spool.watch import Watch
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.store import Store

if TYPE_CHECKING:
    from holdfast.runner.requests import PromptRequest, RedispatchRequest

log = logging.getLogger(__name__)

LOOK_S = 0.5  # between looks whether the database is still the file that was opened
PATIENCE_S = 15.0  # for workers on a database that is gone to notice it


@asynccontextmanager
async def opened(
    home: Home, location: Location, env: Mapping[str, str], told: Callable[[Report], None] | None = None
) -> AsyncIterator[Context]:
    """A home that is healed if nobody works in it yet, and open for work; `told` hears what was healed."""
    written = config.load(home)
    chosen = settings.read(written)
    registry = AgentRegistry.from_config(written.get("agents", {}))
    home.make()
    path = os.path.join(home.path, "workers.lock")
    with durable_io.reported(path):
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        store = await _store(home, location, registry, lock, told)
        watch = Watch()
        try:
            node = store.node
            assert node is not None, "a store that is opened with a home has its node"
            yield Context(store, home, registry, chosen, watch, identity.me(node.id), node, env, Shortages())
        finally:
            watch.close()
            await store.close()
    finally:
        os.close(lock)


async def _store(
    home: Home,
    location: Location,
    registry: AgentRegistry,
    lock: int,
    told: Callable[[Report], None] | None,
) -> Store:
    """The store; the first worker heals it, those that come while one works find it whole."""
    rules = registry.token_rules()
    deadline = time.monotonic() + PATIENCE_S
    while not _alone(lock):
        fcntl.flock(lock, fcntl.LOCK_SH)  # waits for one that heals just now
        if _file(location) is not None or location.kind != "sqlite" or time.monotonic() > deadline:
            return await open_store(location, home, rules)
        fcntl.flock(lock, fcntl.LOCK_UN)  # it was deleted under those that work; they will leave
        await asyncio.sleep(0.1)
    try:
        store, report = await open_healed(location, home, rules)
    finally:
        fcntl.flock(lock, fcntl.LOCK_SH)
    for done in report.done:
        lost = f"; the bytes of what is lost are in {', '.join(done.kept)}" if done.lost else ""
        log.warning("healed %s: %s, %s%s", done.subject, done.code, done.result, lost)
    for left in report.unhealed:
        where = f" ({', '.join(left.kept)})" if left.kept else ""
        log.warning("not healed %s: %s, %s%s", left.subject, left.code, left.text, where)
    for problem in report.problems:
        log.warning("not healed: %s", problem)
    if told is not None:
        told(report)
    return store


def _alone(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _file(location: Location) -> tuple[int, int] | None:
    """Which file the database is; None if it is none, or not there."""
    if location.kind != "sqlite":
        return None
    try:
        found = os.stat(location.address)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


async def replaced(location: Location) -> None:
    """Until the database is another file than now: SQLite would go on writing into the one that is gone."""
    opened = _file(location)
    while True:
        await asyncio.sleep(LOOK_S)
        if location.kind == "sqlite" and (opened is None or _file(location) != opened):
            return


async def work(
    home: Home,
    location: Location,
    env: Mapping[str, str],
    wish: PromptRequest | RedispatchRequest | None,
    by: str,
    reply: Callable[[dict[str, Any]], None],
) -> None:
    """A worker's life: queue the wish, say so or why not, then work until nothing is left to do."""
    settled: list[dict[str, Any]] = []
    raise_file_limit()
    try:
        while await _work(home, location, env, wish, by, reply, settled):
            log.warning("%s was deleted or replaced; opening it again", location.address)
            wish = None  # it was queued
    except errors.HoldfastError as problem:
        reply({"error": problem.as_json(), "exit_status": problem.exit_status, "settled": settled})
        raise


async def _work(
    home: Home,
    location: Location,
    env: Mapping[str, str],
    wish: PromptRequest | RedispatchRequest | None,
    by: str,
    reply: Callable[[dict[str, Any]], None],
    settled: list[dict[str, Any]],
) -> bool:
    """Work on the database that is there; True if it was taken away meanwhile. `settled`: what had ended."""
    from holdfast.runner.worker import Worker

    async with opened(home, location, env) as context:
        worker = Worker(context)
        settled += await worker.adopt()  # what died while nobody watched has an end before anything is judged
        answer = await _fulfil(context, wish, by)
        serving = asyncio.create_task(worker.serve(forever=False))
        taken = asyncio.create_task(replaced(location))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
        reply({**answer, **({"settled": settled} if settled else {})})
        await asyncio.wait({serving, taken}, return_when=asyncio.FIRST_COMPLETED)
        ended = serving.done()
        for running in (serving, taken):
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
        return not ended


async def _fulfil(
    context: Context, wish: PromptRequest | RedispatchRequest | None, by: str
) -> dict[str, Any]:
    """Queue what is wished for; what was queued."""
    from holdfast.runner.dispatch import dispatch
    from holdfast.runner.redispatch import redispatch
    from holdfast.runner.requests import RedispatchRequest

    if wish is None:
        return {}
    if isinstance(wish, RedispatchRequest):
        return await redispatch(context, wish, by)
    task = await dispatch(context, wish, by=by)
    return {"task": task.id, "session": task.session}
