"""Waiting for what others write."""

from __future__ import annotations

import asyncio

import apsw

from holdfast.store.sqlite.store import SqliteListener


async def test_a_cancellation_that_comes_with_news_is_not_lost() -> None:
    for beat in (0.0, 0.001, 0.006, 0.02):
        listener = SqliteListener(":memory:", set(), apsw.Connection(":memory:"))

        async def follow(listener: SqliteListener = listener) -> None:
            while True:
                listener.clear()
                await listener.wait()

        following = asyncio.create_task(follow())
        await asyncio.sleep(beat)
        listener._event.set()
        following.cancel()
        done, _ = await asyncio.wait({following}, timeout=2)
        assert done, "it goes on"
        assert following.cancelled()
