"""Memory of a hub that has nothing to do, beside a bare Litestar application."""

from __future__ import annotations

from bench.hub.home import Homes
from bench.hub.server import Server, bare, hub
from bench.measure import Measured, measured


async def run(homes: Homes, quick: bool) -> list[Measured]:
    """After each has answered a little."""
    pairs = []
    for _ in range(1 if quick else 3):
        with hub(homes.full) as ours, bare("litestar") as theirs:
            pairs.append((_idle(ours, "/api/sessions?limit=50"), _idle(theirs, "/healthz")))
    return [measured("idle hub", "a bare Litestar", pairs, budget="≤ 2", unit="bytes")]


def _idle(server: Server, path: str) -> float:
    line = server.connected()
    for _ in range(20):
        server.ask(line, path)
    line.close()
    return server.rss()
