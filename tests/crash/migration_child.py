"""Waits for a word, then opens a store that has one more step to go, and adds a session."""

from __future__ import annotations

import asyncio
import sys

from holdfast.home import Home
from holdfast.store.open import open_store
from holdfast.store.sqlite import migrations
from holdfast.store.sqlite import store as _warm  # noqa: F401 - so that all are ready at once
from tests.crash.support import RULES, place


async def main(home: Home) -> None:
    """Open, write, close."""
    store = await open_store(place(home), home, RULES)
    await store.create_session("claude")
    await store.close()


if __name__ == "__main__":
    migrations.STEPS = [*migrations.STEPS, sys.argv[2]]
    sys.stdin.readline()
    asyncio.run(main(Home(sys.argv[1])))
