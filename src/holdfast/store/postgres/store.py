"""The store on a PostgreSQL database, for several hubs and workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolClosed

from holdfast import errors
from holdfast import node as nodes
from holdfast.home import Home
from holdfast.model.token import TokenRules
from holdfast.node import Node
from holdfast.store.backend import ChangeListener, Operation
from holdfast.store.mirror.files import MirrorFiles
from holdfast.store.mirror.thread import MirrorThread
from holdfast.store.mirror.writer import MirrorWriter
from holdfast.store.postgres import connection, migrations
from holdfast.store.postgres.connection import (
    BEGIN_READ,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    Address,
    Connection,
    RetryBackoff,
    connect,
    connect_first,
    lost,
    meaning,
    parse,
    prepare,
)
from holdfast.store.postgres.mirror_source import PostgresMirrorSource
from holdfast.store.postgres.sql import PostgresSql
from holdfast.store.postgres.writer import PostgresWriter
from holdfast.store.sql import Sql
from holdfast.store.store import Store

LOOK_S = 5.0  # how long to wait for a notification before looking anyway

log = logging.getLogger(__name__)


class PostgresNotifier:
    """Receives the notifications of all hubs, and reconnects after a lost connection."""

    def __init__(self, address: Address, on_commit: Callable[[], None]):
        self._address = address
        self._on_commit = on_commit
        self._listeners: set[PostgresListener] = set()
        self._listening = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def add(self, listener: PostgresListener) -> None:
        """After this returns, `listener` is notified of every commit."""
        if self._closed:
            raise errors.StoreClosed()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="holdfast-notifications")
        self._listeners.add(listener)
        try:
            async with asyncio.timeout(connection.PATIENCE_S):
                await self._listening.wait()
        except TimeoutError:
            self._listeners.discard(listener)
            raise errors.StoreUnreachable(f"{self._address.name} does not answer") from None

    def discard(self, listener: PostgresListener) -> None:
        """Stop notifying `listener`."""
        self._listeners.discard(listener)

    def notify(self) -> None:
        """Something may have been committed."""
        self._on_commit()
        for listener in self._listeners:
            listener.notify()

    async def close(self) -> None:
        """Stop, and wake all listeners."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self.notify()

    async def _run(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            try:
                async with await connect(self._address) as db:
                    await db.execute(f'listen "{self._address.schema}"')
                    pause = FIRST_PAUSE_S
                    self._listening.set()
                    self.notify()  # there may have been commits before we listened
                    async for _ in db.notifies():
                        self.notify()
            except psycopg.Error as problem:
                log.warning("the connection for notifications was lost: %s", self._address.hide(str(problem)))
            self._listening.clear()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)


class PostgresListener(ChangeListener):
    """Waits for notifications, and wakes up every few seconds anyway."""

    def __init__(self, notifier: PostgresNotifier):
        self._notifier = notifier
        self._event = asyncio.Event()

    async def __aenter__(self) -> PostgresListener:
        await self._notifier.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._notifier.discard(self)

    def notify(self) -> None:
        """Something may have been committed."""
        self._event.set()

    def clear(self) -> None:
        """Forget earlier notifications."""
        self._event.clear()

    async def wait(self) -> None:
        """Wait for a notification, or until it is time to look anyway."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._event.wait()


# --- the store

T = TypeVar("T")

READERS = 8  # most read connections
CLOSING_S = 1.0  # how long a closing store waits for a lost server


class PostgresStore(Store):
    """A store in PostgreSQL: reads use pooled connections, writes go through one writer task."""

    def __init__(
        self,
        address: Address,
        home: Home | None,
        rules: TokenRules,
        db: Connection,
        last_id: int,
        node: Node | None,
    ):
        files = MirrorFiles(home) if home else None
        super().__init__(rules, files)
        self._address = address
        self._closing = False
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            address.conninfo,
            kwargs={"autocommit": True},
            configure=lambda reader: prepare(reader, address),
            min_size=1,
            max_size=READERS,
            max_idle=60.0,
            reconnect_timeout=connection.PATIENCE_S,
            name="holdfast",
            open=False,
        )
        self.node = node
        self._mirror: MirrorThread | None = None
        if files and node:
            mirrors = MirrorWriter(files, owns=node.owns)
            self._mirror = MirrorThread(mirrors, PostgresMirrorSource(self, last_id, node))
        self._notifier = PostgresNotifier(address, self._wake_mirror)
        self._writer = PostgresWriter(address, db, self._announce)

    @classmethod
    async def open(cls, url: str, home: Home | None, rules: TokenRules) -> PostgresStore:
        """Open the store at a URL and create or migrate its schema."""
        address = parse(url)
        db = await connect_first(address)
        try:
            if warning := await connection.check_server(db, address):
                log.warning(warning)
            await migrations.bring_up(db, address)
            last_id = (await PostgresSql(db).rows("last_log"))[0][0]
            node = None if home is None else await _named(PostgresSql(db), home)
        except psycopg.Error as problem:
            await db.close()
            raise meaning(problem, address) from problem
        except BaseException:
            await db.close()
            raise
        store = cls(address, home, rules, db, last_id, node)
        await store._pool.open()
        return store

    @property
    def mirror_problem(self) -> str | None:
        """Why the mirrors are behind the database, while they are."""
        return self._mirror.problem if self._mirror else None

    async def transact(self, operation: Operation) -> Any:
        """Run an operation in the next transaction of the writer."""
        return await self._writer.submit(operation)

    async def query(self, question: Callable[[Sql], Awaitable[T]]) -> T:
        """Answer a question in one read transaction; again if the connection is lost."""
        patience = RetryBackoff(CLOSING_S if self._closing else None)
        task = asyncio.current_task()
        assert task is not None
        cancelled = task.cancelling()
        while True:
            try:
                async with self._pool.connection(timeout=patience.left) as db:
                    if task.cancelling() > cancelled:
                        # Waiting for a connection may swallow it (psycopg/psycopg#1345).
                        raise asyncio.CancelledError
                    await db.execute(BEGIN_READ, prepare=False)
                    return await question(PostgresSql(db))
            except PoolClosed:
                raise errors.StoreClosed() from None
            except (psycopg.Error, UnicodeEncodeError) as problem:
                if not lost(problem) or not await patience.wait():
                    raise meaning(problem, self._address) from problem
                await self._pool.check()  # the other connections are probably lost, too

    def listen(self) -> PostgresListener:
        """A listener for commits of all hubs."""
        return PostgresListener(self._notifier)

    async def with_mirrors(self, work: Callable[[MirrorFiles], T]) -> T | None:
        """Run `work` in the mirror thread, with the mirrors up to date and locked."""
        if self._mirror is None:
            return None
        result: T = await self._mirror.run(work)
        return result

    async def close(self) -> None:
        """Finish the accepted work and close all connections."""
        self._closing = True
        if self._mirror is not None:
            await self._writer.settled()
            await self._mirror.close()
        await self._writer.close()
        await self._pool.close()
        await self._notifier.close()
        if self._files is not None:
            self._files.close()

    def _announce(self, sessions: list[str]) -> None:
        if self._mirror is not None:
            self._mirror.touch(sessions)
        self._notifier.notify()

    def _wake_mirror(self) -> None:
        if self._mirror is not None:
            self._mirror.wake()


async def _named(sql: PostgresSql, home: Home) -> Node:
    """The node of this home. Hostnames from older versions belong to it unless another node has them."""
    node = nodes.ensure(home, private=False)
    lost = []
    for name in sorted(node.names - {node.id}):
        await sql.run("claim_hostname", name=f"hostname:{name}", node=node.id)
        ((owner,),) = await sql.rows("meta", name=f"hostname:{name}")
        if owner != node.id:
            log.warning("sessions of host %s belong to node %s, not to this one (%s)", name, owner, node.id)
            lost.append(name)
    if not lost:
        return node
    nodes.forget(home, lost)
    return nodes.ensure(home, private=False)
