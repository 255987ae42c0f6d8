"""A start, recovery included, with many sessions beside one with none."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from bench.append import Running, events
from bench.measure import Measured, compare
from holdfast.model.commit import Commit

EACH = 100  # events a session


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    sessions = 1_000 if quick else 10_000
    with tempfile.TemporaryDirectory() as folder:
        full = await Running.start(os.path.join(folder, "full"), sessions=0)
        for _ in range(sessions):
            session = await full.store.create_session("claude")
            await full.store.commit(Commit(session.id, events(EACH)))
        await full.store.close()
        empty = await Running.start(os.path.join(folder, "empty"), sessions=0)
        await empty.store.close()

        async def start(which: str) -> float:
            environment = {**os.environ, "HOLDFAST_HOME": os.path.join(folder, which, "home")}
            command = [sys.executable, "-m", "holdfast", "init"]
            begun = time.perf_counter()
            subprocess.run(  # noqa: ASYNC221 - nothing else is running
                command, env=environment, check=True, stdout=subprocess.DEVNULL
            )
            return time.perf_counter() - begun

        await start("full")
        return [
            await compare(
                f"start with {sessions:,} sessions, {sessions * EACH:,} events",
                lambda: start("full"),
                "start of an empty home",
                lambda: start("empty"),
                rounds=11,
                budget="≤ 1.5",
                speed=False,
            )
        ]
