"""A verdict on a long session holds nobody up: the event loop runs on while it is computed."""

from __future__ import annotations

import asyncio
import os
import time

from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.node import Node
from holdfast.resume.facts import NativeLocation, ResumeFacts, gather
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.store import Store
from tests.conftest import REGISTRY

EVENTS = 100_000
BATCH = 5_000
SHARE = 0.25  # of the verdict's processor time that one turn of the event loop may take

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


async def longest_turn(longest: list[float]) -> None:
    """Measure the most processor time of one turn of the event loop.

    Other processes on the machine do not count: the clock is that of this thread.
    """
    last = time.thread_time()
    while True:
        await asyncio.sleep(0.001)
        now = time.thread_time()
        longest[0], last = max(longest[0], now - last), now


async def test_the_event_loop_runs_on_while_a_long_session_is_judged(home: Home) -> None:
    """On SQLite only: on PostgreSQL this passes also without a thread, so it would show nothing there."""
    store = await open_store(Location("sqlite", home.database), home, REGISTRY.token_rules())
    session = await long_session(store)
    longest = [0.0]
    measuring = asyncio.create_task(longest_turn(longest))
    await asyncio.sleep(0.01)
    began = time.process_time()
    facts: ResumeFacts = await gather(
        store, REGISTRY.get("demo"), NativeLocation(home, os.environ, HERE), session
    )
    took = time.process_time() - began
    await asyncio.sleep(0.01)  # the last turn is measured too
    measuring.cancel()
    await store.close()
    assert facts.seen == EVENTS + 1
    assert longest[0] < SHARE * took, (longest[0], took)
