"""From a byte in the spool to a follower of the store in another process, beside the same from a pipe."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.measure import Measured, in_turns, measured
from bench.running import place
from bench.running.helper import helper
from bench.running.place import Place
from holdfast.model.event import Event
from holdfast.store.base import BaseStore
from holdfast.store.sqlite import store as sqlite

AGENT = "beat"
PROGRAM = (sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "beat.py"))
ALLOWED_S = 0.030  # what a spool may add to a pipe's p99, all the way to a subscriber of the hub
FINE_S = 0.001

Late = list[float]  # seconds from the writing of each line, sorted


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    config = f"[agents.{AGENT}]\ncommand = {json.dumps(PROGRAM)}\n"
    results = []
    with tempfile.TemporaryDirectory() as folder, fine_looks():
        ours, pipe = Place(os.path.join(folder, "ours"), config), Place(os.path.join(folder, "pipe"), config)
        async with (
            ours.store() as spooled,
            pipe.store() as piped,
            helper("hub", ours.home.path, env=ours.env),
            helper("relay", pipe.home.path, env=pipe.env),
        ):
            for rate, seconds, rounds in ((20, 3, 1), (500, 2, 1)) if quick else ((20, 10, 3), (500, 4, 3)):
                words = f"{rate * seconds} {rate}"
                pairs = await in_turns(
                    lambda words=words: from_store(spooled, ours.cwd, words),  # type: ignore[misc]
                    lambda words=words: from_store(piped, pipe.cwd, words),  # type: ignore[misc]
                    rounds,
                )
                results += rows(f"byte to commit, {rate} lines/s", pairs)
    return results


async def from_store(store: BaseStore, cwd: str, words: str) -> Late:
    """As a follower of the store sees it."""
    late: Late = []

    def heard(event: Event) -> None:
        if event.kind in ("tool_progress", "tool_summary"):
            written = event.body["input" if event.kind == "tool_progress" else "output"]
            late.append((time.monotonic_ns() - int(written)) / 1e9)

    await place.run(store, AGENT, [words], cwd, heard)
    if len(late) != int(words.split()[0]):
        raise RuntimeError(f"{len(late)} events of {words}")
    return sorted(late)


@contextmanager
def fine_looks() -> Iterator[None]:
    """See commits of other processes when they are made; a follower looks less often as a rule."""
    usual, sqlite.LOOK_S = sqlite.LOOK_S, FINE_S
    try:
        yield
    finally:
        sqlite.LOOK_S = usual


def rows(what: str, pairs: list[tuple[Late, Late]]) -> list[Measured]:
    """The lines of the table."""
    found = []
    for share in (50, 99):
        at = [(_percentile(mine, share), _percentile(base, share)) for mine, base in pairs]
        found.append(measured(f"{what}: p{share}", "from a pipe", at))
    above = [(mine - base, ALLOWED_S) for mine, base in at]
    found.append(measured(f"{what}: p99 above the pipe's", "what is allowed", above, budget="≤ 1"))
    return found


def _percentile(late: Late, share: int) -> float:
    return late[min(len(late) - 1, len(late) * share // 100)]
