"""The store on one SQLite file."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import apsw

from holdfast import errors
from holdfast.home import Home
from holdfast.model.token import TokenRules
from holdfast.store.backend import ChangeListener, Operation
from holdfast.store.mirror.files import MirrorFiles
from holdfast.store.mirror.thread import MirrorThread
from holdfast.store.mirror.writer import MirrorWriter
from holdfast.store.sql import Sql
from holdfast.store.sqlite import migrations
from holdfast.store.sqlite.connection import open_reader, open_writer, translated
from holdfast.store.sqlite.mirror_source import SqliteMirrorSource
from holdfast.store.sqlite.read_transaction import read
from holdfast.store.sqlite.writer import SqliteWriter
from holdfast.store.store import Store

T = TypeVar("T")
Shaped = TypeVar("Shaped")

READERS = 4  # threads for long reads

# How often a listener looks for commits of other processes: more often after a recent commit.
LOOK_S, SOON_S = 0.05, 0.005
BACKOFF = 20.0  # it waits a twentieth of the time since the last commit


class SqliteStore(Store):
    """A store in SQLite: short reads run in the caller, long reads in threads, writes in one thread."""

    def __init__(
        self,
        path: str,
        home: Home | None,
        rules: TokenRules,
        files: MirrorFiles | None = None,
        connect: Callable[[str], apsw.Connection] = open_writer,
    ):
        if files is None and home is not None:
            files = MirrorFiles(home)
        super().__init__(rules, files)
        self._path = path
        self._closed = False
        backups = home.backups if home else os.path.dirname(path)
        self._local = threading.local()
        self._open_readers: list[apsw.Connection] = []  # of all threads
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="holdfast-read")
        self._listeners: set[SqliteListener] = set()

        def connection() -> apsw.Connection:
            db = connect(path)
            try:
                with translated(path):
                    migrations.bring_up(db, path, os.urandom(4).hex(), backups)
            except BaseException:
                db.close()
                raise
            return db

        self._mirror: MirrorThread | None = None
        self._writer = SqliteWriter(path, connection, self._announce)
        if files is not None:
            mirrors = MirrorWriter(files, owns=lambda host: True)
            self._mirror = MirrorThread(mirrors, SqliteMirrorSource(path, self._writer))

    @property
    def mirror_problem(self) -> str | None:
        """Why the mirrors are behind the database, while they are."""
        return self._mirror.problem if self._mirror else None

    async def transact(self, operation: Operation) -> Any:
        """Run an operation in the next transaction of the writer."""
        return await self._writer.submit(operation)

    async def query(self, question: Callable[[Sql], Awaitable[T]]) -> T:
        """Answer a question in one read transaction, without waiting for a writer."""
        return read(self._reader(), self._path, question)

    async def query_long(
        self, question: Callable[[Sql], Awaitable[T]], shape: Callable[[T], Shaped]
    ) -> Shaped:
        """Answer a question and decode the result in a thread with its own connection."""
        if self._closed:
            raise errors.StoreClosed()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._readers, lambda: shape(read(self._reader(), self._path, question))
        )

    async def mark(self) -> object | None:
        """A value that changes with every commit of any process."""
        with translated(self._path):
            return id(self), self._reader().execute("pragma data_version").fetchone()

    def listen(self) -> SqliteListener:
        """A listener for commits: of this process at once, of others within milliseconds."""
        return SqliteListener(self._path, self._listeners, self._reader())

    async def with_mirrors(self, work: Callable[[MirrorFiles], T]) -> T | None:
        """Run `work` in the mirror thread, with the mirrors up to date and locked."""
        if self._mirror is None:
            return None
        result: T = await self._mirror.run(work)
        return result

    async def close(self) -> None:
        """Finish the accepted work and close the file."""
        self._closed = True
        await asyncio.to_thread(self._readers.shutdown)
        for db in self._open_readers:
            db.close()
        if self._mirror is not None:
            await self._mirror.close()
        await self._writer.close()  # last, so that it merges the WAL into the file
        if self._files is not None:
            self._files.close()

    def _reader(self) -> apsw.Connection:
        if self._closed:
            raise errors.StoreClosed()
        db: apsw.Connection | None = getattr(self._local, "reader", None)
        if db is None:
            db = self._local.reader = open_reader(self._path)
            self._open_readers.append(db)
        return db

    def _announce(self, sessions: list[str]) -> None:
        if self._mirror is not None:
            self._mirror.touch(sessions)
        for listener in list(self._listeners):
            listener.notify()


class SqliteListener(ChangeListener):
    """The writer of this process notifies it; the data version of the file shows other commits."""

    def __init__(self, path: str, listeners: set[SqliteListener], db: apsw.Connection):
        self._path = path
        self._listeners = listeners
        self._db = db
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._version = self._look()
        self._last_commit_at = self._loop.time()
        listeners.add(self)

    async def __aexit__(self, *_: object) -> None:
        self._listeners.discard(self)

    def notify(self) -> None:
        """The writer thread calls this after a commit."""
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            self._listeners.discard(self)  # its loop has ended

    def clear(self) -> None:
        """Forget earlier commits."""
        self._event.clear()
        self._version = self._look()

    async def wait(self) -> None:
        """Wait for a commit of this process or another."""
        while not self._event.is_set() and self._look() == self._version:
            idle = self._loop.time() - self._last_commit_at
            # Not wait_for: up to Python 3.11 it loses a cancellation that comes as the event is set.
            with suppress(TimeoutError):
                async with asyncio.timeout(min(LOOK_S, max(SOON_S, idle / BACKOFF))):
                    await self._event.wait()
        self._last_commit_at = self._loop.time()

    def _look(self) -> int:
        with translated(self._path):
            row = self._db.execute("pragma data_version").fetchone()
        if row is None:
            raise errors.StoreUnreadable()
        return int(row[0])
