"""A thousand readers, some slow, some vanishing, of events of 64 KB, and a thousand polls during a run."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.store import Store
from tests.conftest import REGISTRY
from tests.hub.readers import Reader
from tests.hub.running_hub import RunningHub, running, script

READERS = 1000
SLOW = 20
VANISHING = 150
DEADLINE_S = 240.0
BIG = "x" * 64 * 1024
SMALL = 20
BURSTS, BURST = 16, 10  # 10 MB to each reader
MB = 1024 * 1024


@pytest.fixture
def hub(home: Home, tmp_path: Path) -> Iterator[RunningHub]:
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * READERS + 500
    if usual[1] != resource.RLIM_INFINITY and usual[1] < wanted:
        pytest.skip("this machine does not let a process have enough connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(usual[0], wanted), usual[1]))
    try:
        with running(home, str(tmp_path / "work")) as found:
            yield found
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)


async def opened(hub: RunningHub) -> Store:
    """The store, as another process has it."""
    home = hub.terminal.home
    return await open_store(Location("sqlite", home.database), home, REGISTRY.token_rules())


async def say(store: Store, session: str, text: str, count: int) -> None:
    for _ in range(count):
        await store.commit(Commit(session, [NewEvent("assistant", {"text": text})]))


async def heard(readers: list[Reader], least: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        for reader in readers:
            await reader.until(least)


async def test_a_thousand_readers(hub: RunningHub) -> None:
    """Those who read get all of it; what the slow and the vanished leave behind is let go."""
    store = await opened(hub)
    session = (await store.create_session("demo")).id
    path = f"/api/sessions/{session}/stream"
    readers = [Reader(hub, path) for _ in range(READERS)]
    slow = [Reader(hub, path) for _ in range(SLOW)]
    for some in range(0, READERS, 100):
        await asyncio.gather(*[reader.connect() for reader in readers[some : some + 100]])
    await asyncio.gather(*[reader.connect(buffer=4096) for reader in slow])
    reading = [asyncio.create_task(reader.read()) for reader in readers]
    try:
        await say(store, session, "small", SMALL)
        await heard(readers, SMALL + 1)  # and that it was created
        before = hub.rss()
        for reader in readers[:VANISHING]:
            reader.vanish()
        staying = readers[VANISHING:]
        told = SMALL + 1
        # The slow ones read nothing of all this: of them the hub holds references, not copies.
        for _ in range(BURSTS):
            await say(store, session, BIG, BURST)
            told += BURST
            await heard(staying, told)
        assert [reader.events for reader in staying] == [told] * len(staying)
        after = hub.rss()
        assert after < before + 200 * MB, (before // MB, after // MB)
    finally:
        for reader, task in zip(readers, reading, strict=True):
            reader.vanish()
            task.cancel()
        for reader in slow:
            reader.vanish()
        await asyncio.gather(*reading, return_exceptions=True)
        await store.close()


async def test_a_thousand_polls_change_nothing(hub: RunningHub) -> None:
    """Not a record, not a header; and the hub is no larger afterwards."""
    client = hub.client()
    made = client.dispatch(script({"tool": "shell", "run": "true", "ask": True}), agent="demo")
    session = made["session"]
    hub.terminal.until_event(session, "permission", answer=None)

    def poll() -> tuple[object, ...]:
        return (
            client.sessions(),
            client.session(session),
            [{**task, "lease_until": None} for task in client.tasks(session=session)],  # the hub renews it
            list(client.events(session)),
            client.verdict(session),
        )

    for _ in range(20):
        first = poll()
    before = hub.rss()
    for _ in range(200):
        assert poll() == first
    after = hub.rss()
    assert after < before + 20 * MB, (before // MB, after // MB)
    client.answer(made["task"], "allow")
    assert hub.terminal.ended(made["task"])["status"] == "succeeded"
