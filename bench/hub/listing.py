"""A list of 50 of many sessions, beside a bare `/healthz`."""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Callable

from bench.hub.home import Homes
from bench.hub.server import Server, bare, hub
from bench.measure import Measured, compare

EACH = 100  # requests a round


async def run(homes: Homes, quick: bool) -> list[Measured]:
    """Over one connection that stays."""
    with hub(homes.full) as ours, bare("litestar") as theirs:
        ask_ours, ask_theirs = Asking(ours), Asking(theirs)
        what = f"list 50 of {homes.sessions:,} sessions"
        numbers = itertools.cycle(range(1, 100))  # more lists than the hub keeps: it has none of them

        def known() -> str:
            return "/api/sessions?limit=50"

        def new() -> str:  # before a time to come: the same list by another name
            return f"/api/sessions?limit=50&before=~/{next(numbers)}"

        def bare_health() -> str:
            return "/healthz"

        if len(json.loads(ask_ours.once(known()))["sessions"]) != 50:
            raise RuntimeError("that is no list of 50")
        rounds = 5 if quick else 21
        return [
            await compare(
                f"{what}, {how}",
                lambda path=path: ask_ours.timed(path),  # type: ignore[misc]
                name,
                lambda asking=asking: asking.timed(bare_health),  # type: ignore[misc]
                rounds=rounds,
                budget=budget,
                speed=False,
            )
            for how, path in (("nothing new", known), ("read anew", new))
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

    async def timed(self, path: Callable[[], str]) -> float:
        """Seconds an answer, as a rule: whatever else the machine does delays a few of them by much."""
        took = []
        self._line.close()  # while the other had its turn, it may have been closed at the other end
        self.once(path())
        for _ in range(EACH):
            asked, begun = path(), time.perf_counter()
            self.once(asked)
            took.append(time.perf_counter() - begun)
        return statistics.median(took)
