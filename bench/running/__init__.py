"""Tasks under Holdfast beside the same agents driven bare."""

from __future__ import annotations

from bench.measure import Measured
from bench.running import alone, latency, many


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    return [*await alone.run(quick), *await latency.run(quick), *await many.run(quick)]
