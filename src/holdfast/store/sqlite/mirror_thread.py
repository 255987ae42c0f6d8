"""The thread that keeps the mirrors of a SQLite store."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

import apsw

from holdfast import errors
from holdfast.store import sync_await
from holdfast.store.mirror.files import MirrorFiles
from holdfast.store.mirror.writer import LAG_S, QUIET_S, MirrorJob, MirrorWriter, put_seals
from holdfast.store.sqlite.connection import open_reader, translated
from holdfast.store.sqlite.sql import SqliteSql
from holdfast.store.sqlite.writer import SqliteWriter

RETRY_S = 1.0  # how long to wait before mirrors are tried again that could not be written

log = logging.getLogger(__name__)


class SqliteMirrorThread:
    """Follows the writer's commits with its own reading connection."""

    def __init__(self, path: str, keeper: MirrorWriter, writer: SqliteWriter):
        self._path = path
        self._keeper = keeper
        self._writer = writer
        self._news = threading.Event()
        self._urgent = threading.Event()  # somebody waits for us
        self._errands: queue.SimpleQueue[MirrorJob] = queue.SimpleQueue()
        self._stop = False
        self._db: apsw.Connection | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-mirror", daemon=True)
        self._thread.start()

    def touch(self, sessions: list[str]) -> None:
        """These sessions have new records."""
        self._keeper.touch(sessions)
        if not self._news.is_set():
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
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _hurry(self) -> None:
        self._urgent.set()
        self._news.set()

    # --- in the thread

    def _run(self) -> None:
        stop = False
        while not stop:
            self._news.wait(None if self._keeper.idle() else QUIET_S / 2)
            if self._news.is_set():
                self._urgent.wait(LAG_S if self._keeper.problem is None else RETRY_S)
            self._urgent.clear()
            self._news.clear()
            stop = self._stop
            waiting = self._errands.qsize()  # those that come later want what is committed later, too
            self._follow()
            for _ in range(waiting):
                self._errands.get().do(self._keeper.files)
            self._seal(all_of_them=stop)
        if self._db is not None:
            self._db.close()

    def _follow(self) -> None:
        try:
            with translated(self._path):
                if self._db is None:
                    self._db = open_reader(self._path)
                sync_await.run(self._keeper.follow(SqliteSql(self._db)))
        except (errors.HoldfastError, OSError) as problem:
            log.warning("mirrors cannot follow: %s", problem)
            self._db = None
        except Exception as problem:
            # Told and tried again: a thread that ends here would leave the mirrors behind for ever.
            log.exception("the mirrors' keeper stumbled")
            self._keeper.problem = f"{type(problem).__name__}: {problem}"

    def _seal(self, all_of_them: bool) -> None:
        try:
            sealed = self._keeper.quiet(all_of_them)
            if sealed:
                self._writer.submit_now(lambda sql: put_seals(sql, sealed))
        except (errors.HoldfastError, OSError) as problem:
            # Without a seal the next start reads that mirror instead of only looking at it.
            log.warning("mirrors could not be sealed: %s", problem)
