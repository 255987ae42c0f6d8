"""How the mirror thread reads a PostgreSQL store: the sessions of this node, in the store's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

from holdfast import errors
from holdfast.node import Node
from holdfast.store import sync_await
from holdfast.store.mirror.writer import MirrorSeal, MirrorWriter, put_seals
from holdfast.store.sql import Row, Sql
from holdfast.store.store import Store

POLL_S = 5.0  # how often to look for commits of other hubs if no notification comes

T = TypeVar("T")


class PostgresMirrorSource:
    """Follows the log from a row id on."""

    poll_s: float | None = POLL_S

    def __init__(self, store: Store, last_id: int, node: Node):
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._hosts = sorted(node.names)
        self._last_id = last_id

    def catch_up(self, mirrors: MirrorWriter) -> None:
        """Let `mirrors` read the log and append what is missing, also what other hubs committed."""
        self._last_id, sessions = self._query(self._new_sessions)
        mirrors.touch(sessions)
        # The writer only reads rows.
        sync_await.run(mirrors.catch_up(cast(Sql, ThreadSql(self._query))))

    def save_seals(self, seals: Sequence[MirrorSeal]) -> None:
        """Record the seals in the database."""
        self._await(self._store.transact(lambda sql: put_seals(sql, seals)))

    def is_gone(self) -> bool:
        """Whether the event loop ended before the store was closed."""
        return self._loop.is_closed()

    def close(self) -> None:
        """Nothing is open: the store owns the connections."""

    async def _new_sessions(self, sql: Sql) -> tuple[int, list[str]]:
        last = (await sql.rows("last_log"))[0][0]
        if last == self._last_id:
            return last, []
        rows = await sql.rows("touched", after=self._last_id, hosts=self._hosts)
        return last, [session for (session,) in rows]

    def _query(self, question: Callable[[Sql], Awaitable[T]]) -> T:
        return self._await(self._store.query(question))

    def _await(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            coroutine.close()
            raise errors.StoreClosed()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class ThreadSql:
    """Rows of the store for a thread: each statement is a query of its own.

    A log only grows, so the results of separate queries fit together.
    """

    def __init__(self, query: Callable[[Callable[[Sql], Awaitable[Any]]], Any]):
        self._query = query

    async def rows(self, name: str, /, *, budget: int | None = None, **values: Any) -> list[Row]:
        """All rows, or as many as the budget allows."""
        rows: list[Row] = self._query(lambda sql: sql.rows(name, budget=budget, **values))
        return rows

    async def dicts(self, name: str, /, **values: Any) -> list[dict[str, Any]]:
        """All rows by column name."""
        rows: list[dict[str, Any]] = self._query(lambda sql: sql.dicts(name, **values))
        return rows
