"""How an agent is brought to its end: asked to stop, let go after its final word, ended if it stays."""

from __future__ import annotations

import logging
import time

from holdfast import clock
from holdfast.model.task import Task
from holdfast.spool.folder import Spool
from holdfast.spool.outbox import close_input
from holdfast.work.family import Family
from holdfast.work.journal import Journal
from holdfast.work.requests import Requests, cancel
from holdfast.work.settings import RunSettings

log = logging.getLogger(__name__)


class Stopping:
    """What was asked of one running agent about its end, and what was done for it."""

    def __init__(self, task: Task, spool: Spool, family: Family, journal: Journal, settings: RunSettings):
        self.cancelled_by: str | None = None
        self._task = task
        self._spool = spool
        self._family = family
        self._journal = journal
        self._driver = journal.driver
        self._settings = settings
        self._forced = False
        self._asked_at: float | None = None  # to stop
        self._told = self._signalled = False  # that it was asked to
        self._left_at: float | None = None  # its input was closed
        self._ended = False  # it was not only asked

    async def heed(self, asked: Requests) -> None:
        """Take in who asked for it."""
        self._forced = len(asked.cancels) > 1
        if asked.cancels and self.cancelled_by is None:
            self.cancelled_by = asked.cancels[0]
            if self._driver.final is None:
                self._asked_at = time.monotonic()
                await self._family.note()

    async def press(self) -> None:
        """Let go what has said its final word; end what has no time left, or was asked to go and has not."""
        if self._driver.final is not None:
            await self._let_go()
        elif self.cancelled_by is None and (limit := self._limit()) and self._age() > limit:
            by = f"its time limit of {limit:g} s"
            await self._journal.commit([cancel(by)])
            await self.heed(Requests({}, (by,)))
        if self._ended:
            return
        if self._asked_at is not None and self._driver.final is None and not self._told:
            await self._tell()
        now = time.monotonic()
        if self._asked_at is not None and (self._forced or now - self._asked_at > self._settings.grace_s):
            self._ended = True
            await self.end_all()
        elif self._left_at is not None and now - self._left_at > self._settings.leave_s:
            self._ended = True
            await self._journal.fence()
            await self._family.end_agent()

    async def end_all(self) -> None:
        """End the agent and all that it started."""
        await self._journal.fence()
        for process in await self._family.end():
            log.warning(
                "task %s: process %d (%s) cannot be ended", self._task.id, process.pid, process.command
            )

    async def _let_go(self) -> None:
        """End its input, so that it leaves."""
        if self._left_at is None:
            self._left_at = time.monotonic()
            if self._journal.listens:
                await self._journal.fence()
                close_input(self._spool)

    async def _tell(self) -> None:
        """As the agent's protocol says it; until there is a way to say it, by a signal."""
        out = self._driver.interrupt()
        if out is not None:
            await self._journal.put(out)
            self._told = True
        elif not self._signalled:
            await self._journal.fence()
            self._signalled = self._family.interrupt()

    def _limit(self) -> float | None:
        limit: float | None = self._task.options.get("time_limit_s") or self._settings.time_limit_s
        return limit

    def _age(self) -> float:
        """Seconds since the task was first begun."""
        return time.time() - clock.parse(self._task.started_at) if self._task.started_at else 0.0
