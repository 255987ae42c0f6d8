"""The one writer thread of a process: gathers what callers hand in and commits it in one transaction."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import apsw

from holdfast import errors
from holdfast.store import sync_await
from holdfast.store.backend import Operation, OperationResult
from holdfast.store.sqlite.connection import meaning
from holdfast.store.sqlite.sql import SqliteSql
from holdfast.store.sqlite.write_cache import WriteCache

GATHER = 256  # operations in one transaction, at the most

log = logging.getLogger(__name__)


class SqliteWriteJob(NamedTuple):
    """An operation and who is told its outcome, from the writer thread: an Outcome or an error."""

    operation: Operation
    tell: Callable[[Any], None]
    loop: asyncio.AbstractEventLoop | None


class SqliteWriter:
    """Owns the writing connection; work is handed to it from any thread."""

    def __init__(
        self,
        path: str,
        connect: Callable[[], apsw.Connection],
        on_commit: Callable[[list[str]], None],
    ):
        self._path = path
        self._connect = connect
        self._on_commit = on_commit
        self._memory = WriteCache()
        self._db: apsw.Connection | None = connect()
        self._jobs: queue.SimpleQueue[SqliteWriteJob | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="holdfast-writer", daemon=True)
        self._thread.start()

    async def submit(self, operation: Operation) -> Any:
        """The operation's value, once it is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(SqliteWriteJob(operation, _teller(future), loop))
        return await future

    def submit_now(self, operation: Operation) -> Any:
        """The same for a thread without an event loop."""
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._put(SqliteWriteJob(operation, answers.put, None))
        answer = answers.get()
        if isinstance(answer, OperationResult):
            return answer.value
        raise answer

    async def close(self) -> None:
        """Finish what was handed in and close the file."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _put(self, job: SqliteWriteJob) -> None:
        if self._closed:
            raise errors.StoreClosed()
        self._jobs.put(job)

    # --- in the thread

    def _run(self) -> None:
        while (first := self._jobs.get()) is not None:
            jobs = [first]
            stop = False
            while len(jobs) < GATHER and not stop:
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if job is None:
                    stop = True
                else:
                    jobs.append(job)
            self._commit(jobs)
            if stop:
                break
        if self._db is not None:
            self._db.close()

    def _commit(self, jobs: list[SqliteWriteJob]) -> None:
        results = self._transaction(jobs)
        if results is not None:
            self._answer(jobs, results)
            return
        # Something unforeseen struck the shared transaction; alone, only the guilty one fails.
        for job in jobs:
            self._answer([job], self._transaction([job]) or [errors.HoldfastError()])

    def _transaction(self, jobs: list[SqliteWriteJob]) -> list[Any] | None:
        """The outcome or error of each job, durable; None if the jobs should be tried one by one."""
        try:
            db = self._db = self._db or self._connect()
        except errors.HoldfastError as problem:
            return [problem] * len(jobs)
        sql = SqliteSql(db, self._memory)
        results: list[Any] = []
        try:
            db.execute("begin immediate")
            self._memory.begin(db)
            for job in jobs:
                try:
                    results.append(sync_await.run(job.operation(sql)))  # type: ignore[arg-type]
                except errors.HoldfastError as refusal:
                    results.append(refusal)
            sql.settle()
            db.execute("commit")
            self._memory.committed(db)
        except Exception as problem:
            self._abandon()
            if len(jobs) > 1 and not isinstance(problem, (apsw.BusyError, apsw.FullError)):
                return None
            if isinstance(problem, (apsw.Error, UnicodeDecodeError)):
                problem = meaning(problem, self._path)
            else:
                log.exception("an operation failed inside the writer")
            return [problem] * len(jobs)
        return results

    def _abandon(self) -> None:
        """After a failed transaction start from what is on disk, with a new connection."""
        self._memory.forget()
        db, self._db = self._db, None
        if db is not None:
            try:
                if db.in_transaction:
                    db.execute("rollback")
            except apsw.Error as problem:
                log.warning("the rollback failed, too: %s", problem)
            db.close(True)

    def _answer(self, jobs: list[SqliteWriteJob], results: list[Any]) -> None:
        touched = [session for r in results if isinstance(r, OperationResult) for session in r.touched]
        if touched:
            # Before the callers hear of it: who then asks for level mirrors must find this in them.
            self._on_commit(touched)
        waiting: dict[asyncio.AbstractEventLoop | None, list[tuple[SqliteWriteJob, Any]]] = {}
        for job, result in zip(jobs, results, strict=True):
            waiting.setdefault(job.loop, []).append((job, result))
        for loop, answers in waiting.items():
            if loop is None:
                _tell(answers)
                continue
            try:
                loop.call_soon_threadsafe(_tell, answers)
            except RuntimeError:
                log.debug("a caller's event loop ended before its answer")


def _tell(answers: list[tuple[SqliteWriteJob, Any]]) -> None:
    for job, result in answers:
        job.tell(result)


def _teller(future: asyncio.Future[Any]) -> Callable[[Any], None]:
    def tell(result: Any) -> None:
        if future.done():  # its caller was cancelled
            return
        if isinstance(result, OperationResult):
            future.set_result(result.value)
        else:
            future.set_exception(result)

    return tell
