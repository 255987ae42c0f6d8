"""The only writer of a hub: commits the operations of several callers in one transaction."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg

from holdfast import errors
from holdfast.store.backend import Operation, OperationResult
from holdfast.store.postgres.connection import Address, Connection, RetryBackoff, connect, lost, meaning
from holdfast.store.postgres.sql import PostgresSql

GATHER = 256  # most operations in one transaction
PRUNE_EVERY = 10_000  # batches between two cleanups of hubs that no longer exist

# Failures of the whole batch; to try the operations one by one would only take time.
_SHARED_FAILURES = (errors.StoreBusy, errors.DiskFull, errors.StoreReadOnly, errors.StoreUnreachable)

log = logging.getLogger(__name__)


class PostgresWriteJob(NamedTuple):
    """An operation and its caller."""

    operation: Operation
    future: asyncio.Future[Any]


class CommitInDoubt(Exception):
    """The connection was lost during the commit. The results are valid if it did commit."""

    def __init__(self, results: list[Any]):
        self.results = results


class PostgresWriter:
    """Owns the write connection.

    Each transaction takes the lock of all writers of this store, on any host, so ids in the log have
    no gaps and become visible in order.
    """

    def __init__(self, address: Address, db: Connection, on_commit: Callable[[list[str]], None]):
        self._address = address
        self._db: Connection | None = db
        self._on_commit = on_commit
        self._id = os.urandom(8).hex()
        self._batch = 0
        self._jobs: asyncio.Queue[PostgresWriteJob | None] = asyncio.Queue()
        self._closed = False
        # Several statements in one string are one round trip; such a string takes no parameters.
        self._begin = f"begin isolation level read committed; select pg_advisory_xact_lock({address.lock})"
        self._task = asyncio.create_task(self._run(), name="holdfast-writer")

    async def submit(self, operation: Operation) -> Any:
        """The value of an operation, once it is durable."""
        if self._closed:
            raise errors.StoreClosed()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._jobs.put_nowait(PostgresWriteJob(operation, future))
        return await future

    async def settled(self) -> None:
        """Wait until all submitted work is answered."""
        await self._jobs.join()

    async def close(self) -> None:
        """Finish the submitted work and close the connection."""
        if not self._closed:
            self._closed = True
            self._jobs.put_nowait(None)
        await self._task

    async def _run(self) -> None:
        try:
            stop = False
            while not stop:
                jobs = [await self._jobs.get()]
                while len(jobs) < GATHER and not self._jobs.empty():
                    jobs.append(self._jobs.get_nowait())
                stop = None in jobs  # always the last one
                if submitted := [job for job in jobs if job is not None]:
                    await self._commit(submitted)
                for _ in jobs:
                    self._jobs.task_done()
        finally:
            await self._drop()

    async def _commit(self, jobs: list[PostgresWriteJob]) -> None:
        results = await self._attempt(jobs)
        if results is not None:
            self._answer(jobs, results)
            return
        # An unexpected error in the shared transaction: one by one, only its cause fails.
        for job in jobs:
            self._answer([job], await self._attempt([job]) or [errors.HoldfastError()])

    async def _attempt(self, jobs: list[PostgresWriteJob]) -> list[Any] | None:
        """The result or error of each job, durable. None if the jobs should run one by one."""
        patience = RetryBackoff()
        while True:
            self._batch += 1
            try:
                return await self._transaction(jobs)
            except CommitInDoubt as doubt:
                committed = await self._was_committed()
                if committed is None:
                    unknown = f"{self._address.name} lost the connection during a commit and does not answer"
                    return [errors.CommitUnknown(unknown)] * len(jobs)
                if committed:
                    return doubt.results
            except Exception as problem:
                await self._abandon()
                if lost(problem) and await patience.wait():
                    continue  # it was not committed, and operations may run again
                failure = meaning(problem, self._address)
                if len(jobs) > 1 and not isinstance(failure, _SHARED_FAILURES):
                    return None
                if not isinstance(failure, errors.HoldfastError):
                    log.exception("an operation failed inside the writer")
                return [failure] * len(jobs)

    async def _transaction(self, jobs: list[PostgresWriteJob]) -> list[Any]:
        db = await self._connection()
        sql = PostgresSql(db)
        results: list[Any] = []
        await db.execute(self._begin, prepare=False)
        for job in jobs:
            before = sql.written
            try:
                results.append(await job.operation(sql))
            except errors.HoldfastError as refusal:
                if sql.written != before:
                    raise RuntimeError("an operation refused after it had written") from refusal
                results.append(refusal)
        if not sql.written:
            await db.rollback()
            return results
        await sql.settle()
        notify = any(isinstance(r, OperationResult) and r.touched for r in results)
        try:
            await db.execute(self._end(notify), prepare=False)
        except psycopg.Error as problem:
            if lost(problem):
                raise CommitInDoubt(results) from problem
            raise
        return results

    def _end(self, notify: bool) -> str:
        parts = [
            f"insert into writer (id, batch) values ('{self._id}', {self._batch})"
            " on conflict (id) do update set batch = excluded.batch, at = now()"
        ]
        if self._batch % PRUNE_EVERY == 1:
            parts.append("delete from writer where at < now() - interval '1 day'")
        if notify:
            parts.append(f'notify "{self._address.schema}"')
        return "; ".join([*parts, "commit"])

    async def _was_committed(self) -> bool | None:
        """Whether the last batch was committed. None if the server does not answer."""
        patience = RetryBackoff()
        while True:
            await self._drop()
            try:
                db = await self._connection()
                # The backend of the lost connection may still be committing. It holds the lock while it does.
                await db.execute(self._begin, prepare=False)
                rows = await PostgresSql(db).rows("writer_batch", id=self._id)
                await db.rollback()
                return rows == [(self._batch,)]
            except psycopg.Error as problem:
                if not await patience.wait():
                    log.warning("it is unknown whether a batch was committed: %s", problem)
                    return None

    async def _connection(self) -> Connection:
        if self._db is None or self._db.closed:
            self._db = await connect(self._address)
        return self._db

    async def _abandon(self) -> None:
        """Roll back a failed transaction."""
        try:
            if self._db is not None:
                await self._db.rollback()
        except psycopg.Error:
            await self._drop()

    async def _drop(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            await db.close()

    def _answer(self, jobs: list[PostgresWriteJob], results: list[Any]) -> None:
        touched = [session for r in results if isinstance(r, OperationResult) for session in r.touched]
        if touched:
            self._on_commit(touched)
        for (_, future), result in zip(jobs, results, strict=True):
            if future.done():  # its caller was cancelled
                continue
            if isinstance(result, OperationResult):
                future.set_result(result.value)
            else:
                future.set_exception(result)
