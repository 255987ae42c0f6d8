"""From a byte in the spool to a follower of the store in another process, beside the same from a pipe."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.measure import Measured, in_turns, measured
from bench.running import place
from bench.running.helper import helper
from bench.running.place import Place
from holdfast.model.event import Event
from holdfast.store.sqlite import store as sqlite
from holdfast.store.store import Store

AGENT = "beat"
PROGRAM = (sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "beat.py"))
CONFIG = f"[agents.{AGENT}]\ncommand = {json.dumps(PROGRAM)}\n"
ALLOWED_S = 0.030  # what a spool may add to a pipe's p99, all the way to a subscriber of the hub
FINE_S = 0.001

Late = list[float]  # seconds from the writing of each line, sorted
Hearing = Callable[[str], Awaitable[Late]]  # of an agent that was told these words


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    with tempfile.TemporaryDirectory() as folder, fine_looks():
        ours = Place(os.path.join(folder, "ours"), CONFIG)
        async with ours.store() as spooled, helper("hub", ours.home.path, env=ours.env):
            return await beside_a_pipe(
                "byte to commit", quick, folder, lambda words: from_store(spooled, ours.cwd, words)
            )


async def beside_a_pipe(what: str, quick: bool, folder: str, ours: Hearing) -> list[Measured]:
    """How late ours hears an agent that writes seldom, and one that writes often, beside one at a pipe."""
    results = []
    pipe = Place(os.path.join(folder, "pipe"), CONFIG)
    async with pipe.store() as piped, helper("relay", pipe.home.path, env=pipe.env):
        for rate, seconds, rounds in ((20, 3, 1), (500, 2, 1)) if quick else ((20, 10, 3), (500, 4, 3)):
            words = f"{rate * seconds} {rate}"
            pairs = await in_turns(
                lambda words=words: ours(words),  # type: ignore[misc]
                lambda words=words: from_store(piped, pipe.cwd, words),  # type: ignore[misc]
                rounds,
            )
            results += rows(f"{what}, {rate} lines/s", pairs)
    return results


def lateness(kind: str, body: Mapping[str, Any], now_ns: int) -> float | None:
    """Seconds from when an agent wrote a line to now; None for an event that does not tell when."""
    name = {"tool_progress": "input", "tool_summary": "output"}.get(kind)
    return None if name is None else (now_ns - int(body[name])) / 1e9


async def from_store(store: Store, cwd: str, words: str) -> Late:
    """As a follower of the store sees it."""
    late: Late = []

    def heard(event: Event) -> None:
        if (seconds := lateness(event.kind, event.body, time.monotonic_ns())) is not None:
            late.append(seconds)

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
