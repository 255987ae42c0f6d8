"""Several processes make one new store at the same moment, again and again.

`python -m tests.crash.open_campaign FOLDER ROUNDS` prints what it saw as JSON, or fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable

from holdfast.home import Home
from holdfast.store.open import open_store
from holdfast.store.sqlite import store as _warm  # noqa: F401 - so that all are ready at once
from tests.crash import children
from tests.crash.support import RULES, check_mirrors, check_sound, place, quick_mirrors, read_database

AT_ONCE = 6
HEAD_START_S = 0.02  # until all are there


async def add_session(home: Home) -> None:
    """Open the store, use it, close it."""
    quick_mirrors()
    store = await open_store(place(home), home, RULES)
    await store.create_session("claude")
    await store.close()


def main(folder: str, rounds: int) -> None:
    """A new home in each round."""
    for number in range(rounds):
        home = Home(os.path.join(folder, f"home-{number}"))
        start = time.monotonic() + HEAD_START_S
        started = [children.start(at(start, home)) for _ in range(AT_ONCE)]
        for child in started:
            child.rest()
        sessions = read_database(home.database)
        assert len(sessions) == AT_ONCE
        check_sound(sessions)
        check_mirrors(home, sessions)
    print(json.dumps({"rounds": rounds}))


def at(start: float, home: Home) -> Callable[[Callable[[str], None]], None]:
    """The work of one process, at that moment."""

    def work(say: Callable[[str], None]) -> None:
        while time.monotonic() < start:
            pass
        asyncio.run(add_session(home))

    return work


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
