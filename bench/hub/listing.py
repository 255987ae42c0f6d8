"""A list of 50 of many sessions, beside a bare `/healthz`."""

from __future__ import annotations

import json
import time

from bench.hub.home import Homes
from bench.hub.server import Server, bare, hub
from bench.measure import Measured, compare

EACH = 100  # requests a round


async def run(homes: Homes, quick: bool) -> list[Measured]:
    """Over one connection that stays."""
    with hub(homes.full) as ours, bare("litestar") as theirs:
        ask_ours, ask_theirs = Asking(ours), Asking(theirs)
        if len(json.loads(ask_ours.once("/api/sessions?limit=50"))["sessions"]) != 50:
            raise RuntimeError("that is no list of 50")
        what = f"list 50 of {homes.sessions:,} sessions"
        rounds = 5 if quick else 21
        return [
            await compare(
                what,
                lambda: ask_ours.timed("/api/sessions?limit=50"),
                name,
                lambda asking=asking: asking.timed("/healthz"),  # type: ignore[misc]
                rounds=rounds,
                budget=budget,
                speed=False,
            )
            for name, asking, budget in (
                ("a bare Litestar's /healthz", ask_theirs, "≤ 3"),
                ("the hub's own /healthz", ask_ours, ""),
            )
        ]


class Asking:
    """One connection to one server."""

    def __init__(self, server: Server):
        self._server = server
        self._line = server.connected()

    def once(self, path: str) -> bytes:
        """One answer."""
        return self._server.ask(self._line, path)

    async def timed(self, path: str) -> float:
        """Seconds an answer."""
        begun = time.perf_counter()
        for _ in range(EACH):
            self.once(path)
        return (time.perf_counter() - begun) / EACH
