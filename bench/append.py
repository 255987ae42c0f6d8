"""Durable appends through the public call."""

from __future__ import annotations

import asyncio
import os
import tempfile
import uuid
from collections.abc import Callable

from bench.measure import Measured, Timed, compare, per_unit
from bench.raw import FilePerEvent, RawSqlite, WholeJson
from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent, Origin
from holdfast.model.task import Owner
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.store import Store

TEXT = "The quick brown fox jumps over the lazy dog. " * 9  # 400 characters, as a short answer has


def events(count: int) -> list[NewEvent]:
    """Events as a runner commits them, each with an origin of its own."""
    return [
        NewEvent("assistant", {"text": TEXT}, origin=Origin("claude", "native", str(uuid.uuid4())))
        for _ in range(count)
    ]


class Running:
    """A store with sessions whose tasks run."""

    def __init__(self, store: Store):
        self.store = store
        self.sessions: list[tuple[str, str]] = []
        self.spool = 0

    @classmethod
    async def start(cls, folder: str, sessions: int = 1) -> Running:
        """A fresh home with that many running sessions."""
        home = Home(os.path.join(folder, "home"))
        store = await open_store(Location("sqlite", home.database), home, AgentRegistry().token_rules())
        made = cls(store)
        for _ in range(sessions):
            await made.add()
        return made

    async def add(self) -> int:
        """One more running session; its number."""
        session = await self.store.create_session("claude")
        task = await self.store.enqueue(session.id, "p")
        await self.store.claim(task.id, 0, Owner("bench", 1, 1.0, "boot"), 3600)
        self.sessions.append((session.id, task.id))
        return len(self.sessions) - 1

    async def commit(self, number: int, batch: list[NewEvent]) -> None:
        """A runner's commit: events and the spool offset they bring."""
        session, task = self.sessions[number]
        self.spool += 1000
        await self.store.commit(Commit(session, batch, task=task, generation=1, spool=self.spool))

    async def fill(self, number: int, count: int) -> None:
        """Grow a session."""
        for _ in range(count // 500):
            await self.commit(number, events(500))


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    scale = 10 if quick else 1
    results = []
    with tempfile.TemporaryDirectory() as folder:
        ours = await Running.start(folder)
        raw = RawSqlite(os.path.join(folder, "raw.db"))
        for size, rounds, budget in ((50, 60, "≥ 0.7"), (1, 300, "≥ 0.4")):
            results.append(
                await compare(
                    f"commit of {size} events",
                    _commits(ours, 0, size, rounds // scale + 1),
                    "raw apsw",
                    _raw(raw, size, rounds // scale + 1),
                    rounds=15,
                    budget=budget,
                )
            )
        results.append(await _many_writers(ours, raw, 20 // scale + 1))
        results.append(await _long_session(ours, 100_000 // scale, 40 // scale + 1))
        await ours.store.close()
    with tempfile.TemporaryDirectory() as folder:
        results += await _other_ways(folder, 10_000 // scale)
    return results


async def _many_writers(ours: Running, raw: RawSqlite, each: int) -> Measured:
    numbers = [await ours.add() for _ in range(32)]

    async def thirty_two() -> float:
        batches = {n: [events(1) for _ in range(each)] for n in numbers}

        async def writer(number: int) -> None:
            for batch in batches[number]:
                await ours.commit(number, batch)

        async def all_of_them() -> None:
            await asyncio.gather(*(writer(n) for n in numbers))

        return await per_unit(32 * each, all_of_them)

    return await compare(
        "32 writers, 1 event each",
        thirty_two,
        "raw apsw, one by one",
        _raw(raw, 1, 10 * each),
        rounds=11,
        budget="≥ 3",
    )


async def _long_session(ours: Running, length: int, rounds: int) -> Measured:
    long = await ours.add()
    await ours.fill(long, length)

    async def short() -> float:
        number = await ours.add()
        await ours.commit(number, events(100))
        return await _commits(ours, number, 50, rounds)()

    return await compare(
        f"commit of 50 at {length:,} events",
        _commits(ours, long, 50, rounds),
        "the same at 100 events",
        short,
        rounds=15,
        budget="≤ 1.1",
        speed=False,
    )


async def _other_ways(folder: str, length: int) -> list[Measured]:
    ours = await Running.start(os.path.join(folder, "ours"))
    await ours.fill(0, length)
    (event,) = events(1)
    whole = WholeJson(os.path.join(folder, "session.json"), length, event)
    files = FilePerEvent(os.path.join(folder, "events"), length, event)
    results = []
    for name, append in (("whole-JSON rewrite", whole.append), ("file per event", files.append)):
        results.append(
            await compare(
                f"1 event at {length:,} events",
                _commits(ours, 0, 1, 20),
                name,
                _plain(append, 20),
                rounds=5,
            )
        )
    await ours.store.close()
    return results


def _commits(ours: Running, number: int, size: int, count: int) -> Timed:
    async def once() -> float:
        batches = [events(size) for _ in range(count)]

        async def work() -> None:
            for batch in batches:
                await ours.commit(number, batch)

        return await per_unit(count, work)

    return once


def _raw(raw: RawSqlite, size: int, count: int) -> Timed:
    async def once() -> float:
        batches = [events(size) for _ in range(count)]

        async def work() -> None:
            for batch in batches:
                raw.commit(batch)

        return await per_unit(count, work)

    return once


def _plain(append: Callable[[NewEvent], None], count: int) -> Timed:
    async def once() -> float:
        batch = events(count)

        async def work() -> None:
            for event in batch:
                append(event)

        return await per_unit(count, work)

    return once
