"""The thread that keeps the mirrors of a PostgreSQL store, of all sessions of this node.

A thread, because the lock of the mirror files may have to be waited for while the hub serves on. It
asks its questions in the store's event loop.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast

from holdfast import errors
from holdfast.node import Node
from holdfast.store import sync_await
from holdfast.store.mirror import writer
from holdfast.store.mirror.files import MirrorFiles
from holdfast.store.mirror.writer import MirrorJob, MirrorWriter, put_seals
from holdfast.store.sql import Row, Sql
from holdfast.store.store import Store

LAG_S = writer.LAG_S
LOOK_S = 5.0  # how often to look for what other hubs wrote, if nothing is heard of them
RETRY_S = 1.0  # how long to wait before mirrors are tried again that could not be written

T = TypeVar("T")

log = logging.getLogger(__name__)


class PostgresMirrorThread:
    """Follows the log from a place on."""

    def __init__(self, store: Store, files: MirrorFiles, place: int, node: Node):
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._hosts = sorted(node.names)
        self._keeper = MirrorWriter(files, mine=node.owns)
        self._place = place
        self._news = threading.Event()
        self._urgent = threading.Event()  # somebody waits for us
        self._errands: queue.SimpleQueue[MirrorJob] = queue.SimpleQueue()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="holdfast-mirror", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """Why the mirrors lag behind, as long as they do."""
        return self._keeper.problem

    def touch(self, sessions: list[str]) -> None:
        """These sessions were written to, or are to be looked at."""
        self._keeper.touch(sessions)
        self._news.set()

    def wake(self) -> None:
        """Another hub may have written."""
        self._news.set()

    async def run(self, work: Callable[[MirrorFiles], Any]) -> Any:
        """The result of work on the files, with all that was committed before in them."""
        if self._stop:
            raise errors.StoreClosed()
        errand = MirrorJob.of_caller(work)
        self._errands.put(errand)
        self._hurry()
        return await errand.future

    async def close(self) -> None:
        """Bring everything level, seal it, end."""
        self._stop = True
        self._hurry()
        await self._loop.run_in_executor(None, self._thread.join)

    def _hurry(self) -> None:
        self._urgent.set()
        self._news.set()

    # --- in the thread

    def _run(self) -> None:
        stop = False
        while not stop and not self._loop.is_closed():
            self._news.wait(LOOK_S if self._keeper.idle() else writer.QUIET_S / 2)
            if self._keeper.problem is not None:
                self._urgent.wait(RETRY_S)
            elif self._news.is_set():
                self._urgent.wait(LAG_S)
            self._urgent.clear()
            self._news.clear()
            stop = self._stop
            waiting = self._errands.qsize()  # those that come later want what is committed later, too
            reached = self._follow()
            for _ in range(waiting):
                self._errands.get().do(self._keeper.files)
            if reached:
                self._seal(all_of_them=stop)

    def _follow(self) -> bool:
        """Bring the mirrors level; False if the server or the disk did not let us."""
        try:
            self._place, sessions = self._ask(self._touched)
            self._keeper.touch(sessions)
            # The keeper reads rows and nothing else.
            sync_await.run(self._keeper.follow(cast(Sql, SyncReader(self._ask))))
        except (errors.HoldfastError, OSError) as problem:
            if self._keeper.problem != str(problem):
                log.warning("mirrors cannot follow: %s", problem)
            self._keeper.problem = str(problem)
            return False
        except Exception as problem:
            # Told and tried again: a thread that ends here would leave the mirrors behind for ever.
            log.exception("the mirrors' keeper stumbled")
            self._keeper.problem = f"{type(problem).__name__}: {problem}"
            return False
        return True

    async def _touched(self, sql: Sql) -> tuple[int, list[str]]:
        last = (await sql.rows("last_log"))[0][0]
        if last == self._place:
            return last, []
        return last, [found for (found,) in await sql.rows("touched", after=self._place, hosts=self._hosts)]

    def _seal(self, all_of_them: bool) -> None:
        try:
            sealed = self._keeper.quiet(all_of_them)
            if sealed:
                self._await(self._store.transact(lambda sql: put_seals(sql, sealed)))
        except (errors.HoldfastError, OSError) as problem:
            # Without a seal the next start reads that mirror instead of only looking at it.
            log.warning("mirrors could not be sealed: %s", problem)

    def _ask(self, question: Callable[[Sql], Awaitable[T]]) -> T:
        return self._await(self._store.query(question))

    def _await(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            coroutine.close()
            raise errors.StoreClosed()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class SyncReader:
    """Rows out of the store, for a thread: each statement is a question of its own.

    A log only grows, so that what is read piece by piece still fits together.
    """

    def __init__(self, ask: Callable[[Callable[[Sql], Awaitable[Any]]], Any]):
        self._ask = ask

    async def rows(self, name: str, /, *, budget: int | None = None, **given: Any) -> list[Row]:
        """All rows, or as many as the budget allows."""
        rows: list[Row] = self._ask(lambda sql: sql.rows(name, budget=budget, **given))
        return rows

    async def dicts(self, name: str, /, **given: Any) -> list[dict[str, Any]]:
        """All rows by column name."""
        rows: list[dict[str, Any]] = self._ask(lambda sql: sql.dicts(name, **given))
        return rows
