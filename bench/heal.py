"""Starting with many sessions: nothing wrong, and everything to rebuild."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
import time

import msgspec

from bench.append import events
from bench.measure import Measured, compare, per_unit
from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery.heal import heal, open_healed
from holdfast.store.location import Location
from holdfast.store.open import open_store

RULES = AgentRegistry().token_rules()
EACH = 20  # events a session


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    sessions = 1_000 if quick else 10_000
    with tempfile.TemporaryDirectory() as folder:
        home = Home(os.path.join(folder, "home"))
        location = Location("sqlite", home.database)
        await _fill(home, location, sessions)
        return [
            await _nothing_wrong(home, location, sessions),
            await _rebuild(folder, home, sessions),
        ]


async def _fill(home: Home, location: Location, sessions: int) -> None:
    store = await open_store(location, home, RULES)
    for _ in range(sessions):
        session = await store.create_session("claude")
        await store.commit(Commit(session.id, events(EACH)))
    await store.close()


async def _nothing_wrong(home: Home, location: Location, sessions: int) -> Measured:
    store = await open_store(location, home, RULES)

    async def ours() -> float:
        start = time.perf_counter()
        report = await heal(store, home, location)
        assert not report.findings and not report.compared
        return (time.perf_counter() - start) / sessions

    async def bare() -> float:
        async def work() -> None:
            for entry in os.scandir(home.sessions):
                entry.stat()

        return await per_unit(sessions, work)

    measured = await compare(
        f"heal {sessions:,} sessions, nothing wrong", ours, "bare scandir and stat", bare, speed=False
    )
    await store.close()
    return measured


async def _rebuild(folder: str, home: Home, sessions: int) -> Measured:
    lines = sessions * (EACH + 1)

    async def ours() -> float:
        copy = Home(os.path.join(folder, "copy"))
        shutil.copytree(home.sessions, copy.sessions)
        start = time.perf_counter()
        store, report = await open_healed(Location("sqlite", copy.database), copy, RULES)
        spent = time.perf_counter() - start
        assert len(report.done) == sessions + 1
        await store.close()
        shutil.rmtree(copy.path)
        return spent / lines

    async def bare() -> float:
        async def work() -> None:
            for path in glob.glob(os.path.join(home.sessions, "*.jsonl")):
                with open(path, "rb") as file:
                    for line in file:
                        msgspec.json.decode(line)

        return await per_unit(lines, work)

    return await compare(
        f"rebuild {lines:,} records from mirrors",
        ours,
        "bare decode of the lines",
        bare,
        rounds=1 if sessions > 5000 else 3,
        speed=False,
    )
