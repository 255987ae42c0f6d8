"""From the start of a hub to its address, with many sessions beside one with none."""

from __future__ import annotations

import time

from bench.hub.home import EACH, Homes
from bench.hub.server import hub
from bench.measure import Measured, compare


async def run(homes: Homes, quick: bool) -> list[Measured]:
    """Nothing is wrong with either."""

    async def start(home: str) -> float:
        begun = time.perf_counter()
        with hub(home):
            return time.perf_counter() - begun

    await start(homes.full)
    return [
        await compare(
            f"hub's start with {homes.sessions:,} sessions, {homes.sessions * EACH:,} events",
            lambda: start(homes.full),
            "with an empty home",
            lambda: start(homes.empty),
            rounds=3 if quick else 11,
            budget="≤ 1.5",
            speed=False,
        )
    ]
