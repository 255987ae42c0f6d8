"""The explorer: record a workload, cut the power at every operation, open what is left."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from holdfast.home import Home
from holdfast.store.mirror import thread, writer
from holdfast.store.sqlite import connection
from holdfast.store.sqlite.store import SqliteStore
from tests.crash.disk_model import Ack, DiskModel, Image
from tests.crash.disk_recorder import Recorder, recording
from tests.crash.power_workload import State, Workload, check_image
from tests.crash.support import RULES, scratch

LIMIT_S = 30.0  # no image takes that long to open; a store that waits for ever is one that does not open
SMALL_CHECKPOINT = 20  # pages, so that checkpoints fall into the workload

Check = Callable[[Home, int], Awaitable[None]]  # of an image's home, after so many acknowledged calls


class Cut(NamedTuple):
    """A moment and one image that a power cut then could leave."""

    position: int
    acked: int
    mode: str
    image: Image


class Explored(NamedTuple):
    """What came of it."""

    operations: int
    states: int
    failures: list[str]


@contextmanager
def prepared() -> Iterator[str]:
    """A root for the recording, with mirrors that follow at once and checkpoints that come soon."""
    patch = pytest.MonkeyPatch()
    patch.setattr(thread, "LAG_S", 0.0005)
    patch.setattr(writer, "IDLE_S", 0.005)
    patch.setattr(connection, "CHECKPOINT_PAGES", SMALL_CHECKPOINT)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)  # each image starts threads; they need not wait for their turn
    with scratch() as root:
        try:
            yield root
        finally:
            sys.setswitchinterval(interval)
            patch.undo()


def cuts(recorder: Recorder, seed: int, modes: Sequence[str], start: int = 0) -> Iterator[Cut]:
    """Every moment from `start` on, and its images, but for those seen before with as much acknowledged."""
    rng = random.Random(seed)
    model = DiskModel(recorder.base, recorder.folders)
    acked = 0
    seen: dict[int, int] = {}
    for position, operation in enumerate(recorder.log, 1):
        model.do(operation)
        if isinstance(operation, Ack):
            acked = operation.number
        for mode in () if position < start else modes:
            image = model.image(mode, rng)
            if seen.get(image.key(), -1) < acked:
                seen[image.key()] = acked
                yield Cut(position, acked, mode, image)


async def explore(
    recorder: Recorder, check: Check, seed: int, modes: Sequence[str], most: int = 0, start: int = 0
) -> Explored:
    """Open images of every moment, at most so many (0: all); what failed, in words."""
    states = list(cuts(recorder, seed, modes, start))
    if most and len(states) > most:
        states = sorted(random.Random(seed).sample(states, most), key=lambda cut: cut.position)
    failures = []
    for cut in states:
        with scratch() as root:
            cut.image.put(root)
            try:
                await asyncio.wait_for(check(Home(os.path.join(root, "home")), cut.acked), LIMIT_S)
            except Exception as problem:  # noqa: BLE001 - every failure is counted
                where = recorder.log[max(0, cut.position - 4) : cut.position]
                short = [str(operation)[:80] for operation in where]
                failures.append(
                    f"[{cut.mode}@{cut.position} acked {cut.acked}] {problem!r:.600} after {short}"
                )
    return Explored(len(recorder.log), len(states), failures)


def against(states: list[State]) -> Check:
    """The check of a workload's images: as acknowledged, or one call further."""

    async def check(home: Home, acked: int) -> None:
        await check_image(home, states[acked], states[min(acked + 1, len(states) - 1)])

    return check


Opener = Callable[[Home], SqliteStore]


def open_plainly(home: Home) -> SqliteStore:
    """The store as every user of it opens it."""
    return SqliteStore(home.database, home, RULES)


async def record_workload(
    root: str, seed: int, rounds: int, opener: Opener = open_plainly
) -> tuple[Recorder, list[State]]:
    """Run the workload on a new home below `root`; its operations and the states it came through."""
    with recording(root) as recorder:
        home = Home(os.path.join(root, "home"))
        home.make()
        store = opener(home)
        work = Workload(store, home, recorder.ack, random.Random(seed))
        await work.run(rounds)
        await store.close()
    return recorder, work.states
