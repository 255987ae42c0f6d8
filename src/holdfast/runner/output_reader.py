"""Reads an agent's stdout into the log, from its first byte, also when the file was cut."""

from __future__ import annotations

import os
import time

from holdfast import timestamps
from holdfast.agents.driver import Driver
from holdfast.model.task import Task
from holdfast.runner import stdio_watch
from holdfast.runner.context import OnPartial
from holdfast.runner.recorder import OutputRecorder
from holdfast.spool.outbox import close_input
from holdfast.spool.tail import Shrunk, Tail
from holdfast.spool.task_dir import Spool

READ = 64 * 1024  # bytes of stdout that are read at a time; between them requests are handled


class OutputReader:
    """The stdout of one task."""

    def __init__(
        self, task: Task, spool: Spool, recorder: OutputRecorder, driver: Driver, on_partial: OnPartial | None
    ):
        """`on_partial` is told what the agent is saying now; the log never depends on it."""
        self._task = task
        self._spool = spool
        self._recorder = recorder
        self._driver = driver
        self._on_partial = on_partial
        self._tail = Tail(spool.stdout, spool.lost())

    async def check_size(self) -> None:
        """Notice an output file that was cut while nobody read it.

        A driver that did not read the beginning cannot follow the rest: it would wait for a final answer
        forever. So the agent's input is closed, and the agent leaves when it is done.
        """
        size = self._spool.lost() + os.stat(self._spool.stdout).st_size
        if size < self._task.spool:
            why = f"the log knows {self._task.spool:,} bytes of it, and the file has {size:,}"
            await self._restart(self._task.spool, why)
        if self._spool.lost() and self._recorder.listens:
            await self._recorder.check_ownership()
            close_input(self._spool)

    async def read_next(self) -> bool:
        """Read the next piece of stdout; whether there is more.

        What an earlier owner recorded comes first and alone: requests since then come after it.
        """
        try:
            return await self._read_next()
        except Shrunk as problem:
            if (torn := self._tail.finish()) is not None:
                await self._recorder.on_lines([torn], timestamps.now())
            await self._restart(self._tail.offset, str(problem))
            return True

    def is_level(self) -> bool:
        """Whether all is read that an earlier owner recorded."""
        return self._tail.offset >= self._task.spool

    async def finish(self) -> None:
        """Read the last line, which has no newline, once nobody writes any more."""
        if (last := self._tail.finish()) is not None:
            await self._recorder.on_lines([last], self._written_at())

    async def _read_next(self) -> bool:
        if not self._tail.behind():
            return False
        past = self._task.spool - self._tail.offset
        lines = self._tail.read(min(READ, past) if past > 0 else READ)
        if lines:
            await self._recorder.on_lines(lines, self._written_at())
        if self._on_partial is not None and self.is_level():
            self._on_partial(self._task.session, self._task.id, self._driver.partial_text)
        return self._tail.behind() > 0

    async def _restart(self, lost: int, why: str) -> None:
        self._spool.record_lost(lost)
        self._tail.restart(lost)
        await self._recorder.commit([stdio_watch.shrunk(self._task.id, lost, why)])

    def _written_at(self) -> str:
        """When what is read now was written: at the latest when stdout last changed."""
        return timestamps.stamp(min(time.time(), os.stat(self._spool.stdout).st_mtime))
