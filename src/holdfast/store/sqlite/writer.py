"""The only writer thread of a process: commits the operations of several callers in one transaction."""

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

GATHER = 256  # most operations in one transaction

log = logging.getLogger(__name__)


class SqliteWriteJob(NamedTuple):
    """An operation, and the callback for its OperationResult or error."""

    operation: Operation
    answer: Callable[[Any], None]
    loop: asyncio.AbstractEventLoop | None


class SqliteWriter:
    """Owns the write connection. Any thread may submit work."""

    def __init__(
        self,
        path: str,
        connect: Callable[[], apsw.Connection],
        on_commit: Callable[[list[str]], None],
    ):
        self._path = path
        self._connect = connect
        self._on_commit = on_commit
        self._cache = WriteCache()
        self._db: apsw.Connection | None = connect()
        self._jobs: queue.SimpleQueue[SqliteWriteJob | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="holdfast-writer", daemon=True)
        self._thread.start()

    async def submit(self, operation: Operation) -> Any:
        """The value of an operation, once it is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(SqliteWriteJob(operation, _setter(future), loop))
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
        """Finish the submitted work and close the file."""
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
        # An unexpected error in the shared transaction: one by one, only its cause fails.
        for job in jobs:
            self._answer([job], self._transaction([job]) or [errors.HoldfastError()])

    def _transaction(self, jobs: list[SqliteWriteJob]) -> list[Any] | None:
        """The result or error of each job, durable. None if the jobs should run one by one."""
        try:
            db = self._db = self._db or self._connect()
        except errors.HoldfastError as problem:
            return [problem] * len(jobs)
        sql = SqliteSql(db, self._cache)
        results: list[Any] = []
        try:
            db.execute("begin immediate")
            self._cache.begin(db)
            for job in jobs:
                try:
                    results.append(sync_await.run(job.operation(sql)))  # type: ignore[arg-type]
                except errors.HoldfastError as refusal:
                    results.append(refusal)
            sql.settle()
            db.execute("commit")
            self._cache.committed(db)
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
        """After a failed transaction, start again from the disk with a new connection."""
        self._cache.forget()
        db, self._db = self._db, None
        if db is not None:
            try:
                if db.in_transaction:
                    db.execute("rollback")
            except apsw.Error as problem:
                log.warning("the rollback also failed: %s", problem)
            db.close(True)

    def _answer(self, jobs: list[SqliteWriteJob], results: list[Any]) -> None:
        touched = [session for r in results if isinstance(r, OperationResult) for session in r.touched]
        if touched:
            # Before the answers: a caller that then asks for the mirrors must find this in them.
            self._on_commit(touched)
        waiting: dict[asyncio.AbstractEventLoop | None, list[tuple[SqliteWriteJob, Any]]] = {}
        for job, result in zip(jobs, results, strict=True):
            waiting.setdefault(job.loop, []).append((job, result))
        for loop, answers in waiting.items():
            if loop is None:
                _answer_all(answers)
                continue
            try:
                loop.call_soon_threadsafe(_answer_all, answers)
            except RuntimeError:
                log.debug("a caller's event loop ended before its answer")


def _answer_all(answers: list[tuple[SqliteWriteJob, Any]]) -> None:
    for job, result in answers:
        job.answer(result)


def _setter(future: asyncio.Future[Any]) -> Callable[[Any], None]:
    def set_result(result: Any) -> None:
        if future.done():  # its caller was cancelled
            return
        if isinstance(result, OperationResult):
            future.set_result(result.value)
        else:
            future.set_exception(result)

    return set_result
