"""The life of a hub: open and heal the home, take over what runs, then listen until it is told to end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

from holdfast import clock, errors
from holdfast.home import Home
from holdfast.hub.door import Door
from holdfast.hub.hub import Hub
from holdfast.hub.lives import TOUCH_S, Diary
from holdfast.hub.settings import HubSettings
from holdfast.store.location import Location
from holdfast.work import service
from holdfast.work.worker import Worker

AGAIN_S = 1.0  # before a home that could not be opened again is tried once more

log = logging.getLogger(__name__)

Tell = Callable[[Door, Hub], None]


async def live(
    home: Home, location: Location, env: Mapping[str, str], by: str, chosen: HubSettings, tell: Tell
) -> None:
    """Be the hub of a home until SIGTERM or SIGINT; the agents go on when it ends.

    The home's lock is the caller's to hold. `tell` is called once the hub listens.
    """
    life = Life(Hub(home, location, env, by), chosen, tell)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, life.hub.stop)
    await life.run()


class Life:
    """One hub from its start to its end; the database may be taken away and come back in between."""

    def __init__(self, hub: Hub, chosen: HubSettings, tell: Tell):
        self.hub = hub
        self._chosen = chosen
        self._tell = tell
        self._diary = Diary(hub.home)
        self._door: Door | None = None

    async def run(self) -> None:
        """Until the hub is stopped."""
        others = [asyncio.create_task(work) for work in (self.hub.feed.beat(), self._sign())]
        try:
            while not self.hub.stopping.is_set():
                await self._until_stopped(self._open())
        finally:
            self.hub.stop()
            if self._door is not None:
                self._diary.end(clock.now())
                await self._door.close()
            for other in others:
                await _ended(other)

    async def _sign(self) -> None:
        """Signs of life in the diary, without end."""
        while True:
            await asyncio.sleep(TOUCH_S)
            if self._door is not None:
                self._diary.touch()

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it, or stop doing it when the hub stops."""
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(self.hub.stopping.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await _ended(stopping)
        if not working.done():
            working.cancel()
        try:
            await working
        except asyncio.CancelledError:
            if not self.hub.stopping.is_set():
                raise
        except errors.HoldfastError as problem:
            if self._door is None:
                raise
            log.warning("%s; opening the store again", problem.message)
            await asyncio.sleep(AGAIN_S)
        except Exception:
            if self._door is None or not self._door.is_open:
                raise
            log.exception(
                "something unforeseen; opening the store again"
            )  # who reads a stream need not notice
            await asyncio.sleep(AGAIN_S)

    async def _open(self) -> None:
        """Open the home and work in it, until its database is not the one any more that was opened."""
        hub = self.hub
        opening = service.opened(hub.home, hub.location, hub.env, hub.note)
        async with opening as opened, AsyncExitStack() as left:
            context = opened._replace(overhear=hub.feed.speech.overhear)
            worker = Worker(context)
            left.push_async_callback(worker.leave)
            settled = await worker.adopt()
            cursor = await context.store.cursor()
            hub.begin(context, settled)
            if self._door is None:
                self._door = Door(hub, self._chosen)
                self._diary.begin(hub.started_at)
                self._tell(self._door, hub)
            work = (
                worker.serve(forever=True),
                hub.feed.run(context.store, cursor),
                service.replaced(hub.location),
                self._door.served(),
            )
            tasks = [asyncio.create_task(each) for each in work]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                log.warning("%s was deleted or replaced; opening it again", hub.location.address)
            finally:
                hub.end("the database was taken away, and is opened again")
                for task in tasks:
                    await _ended(task)


async def _ended(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for it; what it failed with has been told where it mattered."""
    task.cancel()
    with suppress(asyncio.CancelledError, errors.HoldfastError):
        await task
