"""The life of a hub: open and heal the home, take over what runs, then listen until it is told to end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

import msgspec

from holdfast import config, errors, timestamps
from holdfast.home import Home
from holdfast.hub.api.uptime import TOUCH_S, UptimeLog
from holdfast.hub.server import HttpServer
from holdfast.hub.state import HubState
from holdfast.notify.service import NotifyService
from holdfast.notify.settings import read_notify
from holdfast.runner import service
from holdfast.runner.context import Context
from holdfast.runner.worker import Worker
from holdfast.settings import HubSettings
from holdfast.shortage import raise_file_limit
from holdfast.store.location import Location

AGAIN_S, SELDOM_S = 1.0, 30.0  # before a home that failed is opened again: at first, and at the most
WELL_S = 60.0  # a home that was open for so long was well; what fails then, fails for the first time

log = logging.getLogger(__name__)

Tell = Callable[[HttpServer, HubState], None]
Hire = Callable[[Context], Worker]


async def live(
    home: Home, location: Location, env: Mapping[str, str], by: str, chosen: HubSettings, tell: Tell
) -> None:
    """Be the hub of a home until SIGTERM or SIGINT; the agents go on when it ends.

    The home's lock is the caller's to hold. `tell` is called once the hub listens.
    """
    raise_file_limit()
    life = HubLifecycle(HubState(home, location, env, by), chosen, tell)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, life.hub.stop)
    await life.run()


class HubLifecycle:
    """One hub from its start to its end; the database may be taken away and come back in between."""

    def __init__(self, hub: HubState, chosen: HubSettings, tell: Tell, hire: Hire = Worker):
        self.hub = hub
        self._chosen = chosen
        self._tell = tell
        self._hire = hire
        self._diary = UptimeLog(hub.home)
        self._door: HttpServer | None = None
        self._opened_at: float | None = None  # None: it could not be opened
        self._in_a_row = 0  # failures

    async def run(self) -> None:
        """Until the hub is stopped."""
        try:
            while not self.hub.stopping.is_set():
                await self._until_stopped(self._open())
        finally:
            self.hub.stop()
            if self._door is not None:
                self._diary.end(timestamps.now())
                await self._door.close()

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it, or stop doing it when the hub stops; a failure is told, and waited after."""
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(self.hub.stopping.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await _ended(stopping)
        working.cancel()
        try:
            await working
        except asyncio.CancelledError:
            if not self.hub.stopping.is_set():
                raise
        except Exception as problem:
            if self._door is None or not self._door.is_open:
                raise
            if isinstance(problem, errors.HoldfastError):
                log.warning("%s; the home is closed", problem.message)
            else:
                log.exception("unexpected failure; the home is closed")
            await self._rest_after(problem)

    async def _rest_after(self, problem: Exception) -> None:
        """Before the home is opened again; who reads a stream then goes on where it was."""
        now = asyncio.get_running_loop().time()
        was_well = self._opened_at is not None and now - self._opened_at > WELL_S
        self._in_a_row = 1 if was_well else self._in_a_row + 1
        self._opened_at = None
        self.hub.failed(problem)
        with suppress(TimeoutError):
            async with asyncio.timeout(rest_s(self._in_a_row)):
                await self.hub.stopping.wait()

    async def _open(self) -> None:
        """Open the home and work in it, until its database is not the one any more that was opened."""
        hub = self.hub
        opening = service.opened(hub.home, hub.location, hub.env, hub.note)
        async with opening as opened, AsyncExitStack() as left:
            context = opened._replace(overhear=hub.feed.speech.overhear)
            worker = self._hire(context)
            left.push_async_callback(worker.leave)
            settled = await worker.adopt()
            cursor = await context.store.cursor()
            hub.begin(context, settled)
            self._opened_at = asyncio.get_running_loop().time()
            if self._door is None:
                self._door = HttpServer(hub, self._chosen)
                self._diary.begin(hub.started_at)
                self._tell(self._door, hub)
            work = [
                worker.serve(forever=True),
                hub.feed.run(context.store, cursor),
                hub.feed.beat(),
                service.replaced(hub.location),
                self._sign(),
                self._door.served(),
            ]
            chosen = read_notify(config.load(hub.home))
            if chosen.channels:
                if chosen.page_url is None:
                    chosen = msgspec.structs.replace(chosen, page_url=self._door.url)
                work.append(NotifyService(context.store, context.node, chosen).run())
            tasks = [asyncio.create_task(each) for each in work]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                hub.end("the database was taken away, and is opened again")
                await _ended(*tasks)
            log.warning("%s was deleted or replaced; opening it again", hub.location.address)

    async def _sign(self) -> None:
        """Signs of life in the diary, without end."""
        while True:
            await asyncio.sleep(TOUCH_S)
            self._diary.touch()


def rest_s(in_a_row: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return min(SELDOM_S, AGAIN_S * 2.0 ** min(in_a_row - 1, 10))


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait for them; the first failure is raised, others are in the log."""
    for task in tasks:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    problems = [problem for problem in found if isinstance(problem, Exception)]
    for problem in problems[1:]:
        log.error("and beside it", exc_info=problem)
    if problems:
        raise problems[0]
