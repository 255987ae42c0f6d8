"""A verdict on a long session holds nobody up: the event loop runs on while it is computed."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.node import Node
from holdfast.resume.facts import NativeLocation, ResumeFacts, gather
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.store import Store
from tests.conftest import REGISTRY
from tests.hub.asking import ask
from tests.hub.running_hub import started
from tests.support.terminal import Terminal

EVENTS = 100_000
BATCH = 5_000
SHARE = 0.25  # of the verdict's own time that the event loop may stand still in one piece

HERE = Node("here", frozenset({"here"}))


async def long_session(store: Store) -> str:
    """A session with calls and results, as an agent that works for days leaves them."""
    session = await store.create_session("demo", cwd="/")
    for first in range(0, EVENTS, BATCH):
        events = [event(number) for number in range(first, first + BATCH)]
        await store.commit(Commit(session.id, events))
    return session.id


def event(number: int) -> NewEvent:
    if number % 2:
        return NewEvent(
            "tool_summary", {"call": str(number - 1), "name": "sh", "outcome": "ok", "output": "x" * 80}
        )
    return NewEvent(
        "tool_progress", {"call": str(number), "name": "sh", "input": {"command": "echo " + "x" * 80}}
    )


class Heartbeat:
    """How often the event loop came around, and the longest time that it did not."""

    def __init__(self) -> None:
        self.count = 0
        self.longest = 0.0

    async def run(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.001)
            now = time.monotonic()
            self.count, self.longest, last = self.count + 1, max(self.longest, now - last), now


async def test_the_event_loop_runs_on_while_a_long_session_is_judged(home: Home) -> None:
    """On SQLite only: on PostgreSQL this passes also without a thread, so it would show nothing there."""
    store = await open_store(Location("sqlite", home.database), home, REGISTRY.token_rules())
    session = await long_session(store)
    beat = Heartbeat()
    beating = asyncio.create_task(beat.run())
    await asyncio.sleep(0.01)
    began = time.monotonic()
    facts: ResumeFacts = await gather(
        store, REGISTRY.get("demo"), NativeLocation(home, os.environ, HERE), session
    )
    took = time.monotonic() - began
    await asyncio.sleep(0.01)  # a loop that stood still beats once more, late
    beating.cancel()
    await store.close()
    assert facts.seen == EVENTS + 1
    assert beat.longest < SHARE * took, (beat.longest, took, beat.count)


async def test_the_hub_answers_while_a_long_session_is_judged(home: Home, tmp_path: Path) -> None:
    location = Location("sqlite", home.database)
    store = await open_store(location, home, REGISTRY.token_rules())
    session = await long_session(store)
    await store.close()
    with started(Terminal(home, str(tmp_path))) as hub:
        verdict, judged = timed(lambda: ask(hub, "GET", f"/api/sessions/{session}/verdict").status)
        slowest, answers = 0.0, 0
        while verdict.is_alive():
            began = time.monotonic()
            assert ask(hub, "GET", "/healthz").status == 200
            slowest, answers = max(slowest, time.monotonic() - began), answers + 1
        verdict.join()
        status, took = judged[0]
        assert status == 200
        assert slowest < 0.5 * took, (slowest, took, answers)


def timed(work: Callable[[], int]) -> tuple[threading.Thread, list[tuple[int, float]]]:
    """Start it in a thread; what it gives, and its seconds."""
    found: list[tuple[int, float]] = []

    def run() -> None:
        began = time.monotonic()
        found.append((work(), time.monotonic() - began))

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found
