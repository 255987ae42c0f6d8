"""One task of a few seconds: wall time and CPU time, bare and under Holdfast."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

from bench.measure import Measured, in_turns, measured
from bench.running import place
from bench.running.helper import Helper, command, helper
from bench.running.place import Place
from holdfast.store.store import Store

AFTER_S = 0.3  # until a worker has put away what a task left
BUDGET = "≤ 1.05"

STEPS: list[dict[str, Any]] = [
    {"think": "What is there to do, and in which order? " * 4, "chunk": 8, "delay": 0.01},
    {"say": "First I look at what is there, then I change it. " * 6, "chunk": 8, "delay": 0.01},
    {"tool": "shell", "run": "sleep 0.2; ls -la /"},
    {"tool": "shell", "run": "sleep 0.3; echo changed"},
    {"say": "Now the tests, two kinds at the same time. " * 6, "chunk": 8, "delay": 0.01},
    {
        "parallel": [
            {"tool": "shell", "run": "sleep 0.4; echo 12 passed"},
            {"tool": "shell", "run": "sleep 0.5; seq 200"},
        ]
    },
    {"tool": "shell", "run": "sleep 0.1; exit 1"},
    {"say": "All but one have passed, and that one is not ours. " * 6, "chunk": 8, "delay": 0.01},
]


class Spent(NamedTuple):
    """One run of the task."""

    wall: float
    cpu: float


def prompt(steps: list[dict[str, Any]]) -> str:
    """A prompt that has the demo agent do that."""
    return f"go <<{json.dumps(steps)}>>"


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    rounds = 2 if quick else 7
    with tempfile.TemporaryDirectory() as folder:
        where = Place(folder)
        results = await _warm(where, rounds)
        results += await _commands(where, rounds)
    return results


async def _warm(where: Place, rounds: int) -> list[Measured]:
    async with (
        where.store() as store,
        helper("hub", where.home.path, env=where.env) as hub,
        helper("bare", env=where.env) as bare,
    ):
        pairs = await in_turns(lambda: _under_holdfast(store, hub, where), lambda: _bare(bare, where), rounds)
    return _rows("a task, worker running", "bare client, running", pairs)


async def _under_holdfast(store: Store, hub: Helper, where: Place) -> Spent:
    before = await hub.spent()
    begun = time.perf_counter()
    await place.run(store, "demo", [prompt(STEPS)], where.cwd)
    wall = time.perf_counter() - begun
    await asyncio.sleep(AFTER_S)
    return Spent(wall, (await hub.spent()).cpu - before.cpu)


async def _bare(bare: Helper, where: Place) -> Spent:
    before = await bare.spent()
    begun = time.perf_counter()
    await bare.do("run", prompts=[prompt(STEPS)], cwd=where.cwd)
    wall = time.perf_counter() - begun
    return Spent(wall, (await bare.spent()).cpu - before.cpu)


async def _commands(where: Place, rounds: int) -> list[Measured]:
    holdfast = os.path.join(os.path.dirname(sys.executable), "holdfast")

    async def spawn(*words: str) -> Spent:
        done = subprocess.run(  # noqa: ASYNC221 - nothing else is running
            command("reaper", *words),
            env={**where.env, "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=where.cwd,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return Spent(**json.loads(done.stdout))

    words = prompt(STEPS)
    pairs = await in_turns(
        lambda: spawn(holdfast, "run", "-a", "demo", words), lambda: spawn(*command("bare", words)), rounds
    )
    return _rows("holdfast run", "bare client, started", pairs)


def _rows(what: str, baseline: str, pairs: list[tuple[Spent, Spent]]) -> list[Measured]:
    walls = [(mine.wall, base.wall) for mine, base in pairs]
    cpus = [(mine.cpu, base.cpu) for mine, base in pairs]
    return [
        measured(f"{what}: wall", baseline, walls, budget=BUDGET),
        measured(f"{what}: CPU", baseline, cpus),
    ]
