"""A command that only reads, beside a bare Python start."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from bench.append import Running, events
from bench.measure import Measured, compare


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    rounds = 5 if quick else 21
    with tempfile.TemporaryDirectory() as folder:
        ours = await Running.start(folder, sessions=20)
        for number in range(20):
            await ours.commit(number, events(10))
        await ours.store.close()
        environment = {**os.environ, "HOLDFAST_HOME": os.path.join(folder, "home")}
        session = ours.sessions[0][0]

        async def spawn(*command: str) -> float:
            start = time.perf_counter()
            subprocess.run(  # noqa: ASYNC221 - nothing else is running
                command, env=environment, check=True, stdout=subprocess.DEVNULL
            )
            return time.perf_counter() - start

        results = []
        for arguments, budget in (
            (["ls", "--json"], "≤ 6"),
            (["show", session, "--json"], "≤ 6"),
            (["log", session, "--json"], "≤ 6"),
            (["ls"], "≤ 8"),
        ):
            shown = " ".join("ID" if a == session else a for a in arguments)
            results.append(
                await compare(
                    f"holdfast {shown}",
                    lambda given=tuple(arguments): spawn(  # type: ignore[misc]
                        os.path.join(os.path.dirname(sys.executable), "holdfast"), *given
                    ),
                    "bare Python start",
                    lambda: spawn(sys.executable, "-c", "pass"),
                    rounds=rounds,
                    budget=budget,
                    speed=False,
                )
            )
        return results
