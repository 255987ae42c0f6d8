"""Many tasks at once: events in the log a second, CPU, and the memory of the one that drives them."""

from __future__ import annotations

import tempfile
import time
from typing import Any, NamedTuple

from bench.measure import Measured, in_turns, measured
from bench.running import place
from bench.running.alone import prompt
from bench.running.helper import helper
from bench.running.place import Place
from holdfast.model.event import Event

STEPS: list[dict[str, Any]] = [
    {"sleep": 3},  # until all are there
    {"say": "I do five small things and tell of each. " * 5, "chunk": 8},
    *[{"tool": "shell", "run": "seq 50"} for _ in range(5)],
    {"spew": 100},
    {"say": "That was all of it. " * 10, "chunk": 8},
]


class Ran(NamedTuple):
    """One round of all of them."""

    wall: float
    cpu: float
    rss: float


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    count, rounds = (30, 1) if quick else (100, 3)
    events = 0

    def heard(_: Event) -> None:
        nonlocal events
        events += 1

    async def ours() -> Ran:
        nonlocal events
        events = 0
        with tempfile.TemporaryDirectory() as folder:
            where = Place(folder, f"[run]\nat_once = {count}\n")
            async with where.store() as store, helper("hub", where.home.path, env=where.env) as hub:
                before = await hub.spent()
                begun = time.perf_counter()
                await place.run(store, "demo", [prompt(STEPS)] * count, where.cwd, heard)
                wall = time.perf_counter() - begun
                spent = await hub.spent()
        return Ran(wall, spent.cpu - before.cpu, spent.rss)

    async def bare() -> Ran:
        with tempfile.TemporaryDirectory() as folder:
            where = Place(folder)
            async with helper("bare", env=where.env) as client:
                before = await client.spent()
                begun = time.perf_counter()
                await client.do("run", prompts=[prompt(STEPS)] * count, cwd=where.cwd)
                wall = time.perf_counter() - begun
                spent = await client.spent()
        return Ran(wall, spent.cpu - before.cpu, spent.rss)

    pairs = await in_turns(ours, bare, rounds)
    baseline = f"{count} driven bare"
    each = [(mine.wall / events, base.wall / events) for mine, base in pairs]
    return [
        measured(
            f"{count} tasks at once: an event ({events / pairs[-1][0].wall:.0f}/s)",
            baseline,
            each,
            speed=True,
        ),
        measured(f"{count} tasks at once: CPU", baseline, [(m.cpu, b.cpu) for m, b in pairs]),
        measured(f"{count} tasks at once: RSS", baseline, [(m.rss, b.rss) for m, b in pairs], unit="bytes"),
    ]
