"""Hearing of commits, whoever made them: one connection with LISTEN, and any number of ears."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import psycopg

from holdfast import errors
from holdfast.store.engine import Listener
from holdfast.store.postgres import connection
from holdfast.store.postgres.address import Address
from holdfast.store.postgres.connection import FIRST_PAUSE_S, LONGEST_PAUSE_S, connect

LOOK_S = 5.0  # how long to hear nothing before looking anyway

log = logging.getLogger(__name__)


class News:
    """Listens from the first ear on, and listens again whenever the connection was lost."""

    def __init__(self, address: Address, on_news: Callable[[], None]):
        self._address = address
        self._on_news = on_news
        self._ears: set[PostgresListener] = set()
        self._listening = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def add(self, ear: PostgresListener) -> None:
        """From when this returns, `ear` is rung for every commit."""
        if self._closed:
            raise errors.StoreClosed()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="holdfast-news")
        self._ears.add(ear)
        try:
            async with asyncio.timeout(connection.PATIENCE_S):
                await self._listening.wait()
        except TimeoutError:
            self._ears.discard(ear)
            raise errors.StoreUnreachable(f"{self._address.place} does not answer") from None

    def discard(self, ear: PostgresListener) -> None:
        """`ear` hears no more."""
        self._ears.discard(ear)

    def ring(self) -> None:
        """Something may have been committed."""
        self._on_news()
        for ear in self._ears:
            ear.ring()

    async def close(self) -> None:
        """Stop listening; who waits is woken."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self.ring()

    async def _run(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            try:
                async with await connect(self._address) as db:
                    await db.execute(f'listen "{self._address.schema}"')
                    pause = FIRST_PAUSE_S
                    self._listening.set()
                    self.ring()  # nothing was heard while we did not listen
                    async for _ in db.notifies():
                        self.ring()
            except psycopg.Error as problem:
                log.warning("no news for a moment: %s", self._address.hide(str(problem)))
            self._listening.clear()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)


class PostgresListener(Listener):
    """An ear that also looks every few seconds."""

    def __init__(self, news: News):
        self._news = news
        self._event = asyncio.Event()

    async def __aenter__(self) -> PostgresListener:
        await self._news.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._news.discard(self)

    def ring(self) -> None:
        """Something may have been committed."""
        self._event.set()

    def clear(self) -> None:
        """Forget what was heard."""
        self._event.clear()

    async def wait(self) -> None:
        """Until something is heard, or it is time to look anyway."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._event.wait()
