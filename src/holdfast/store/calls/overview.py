"""Calls on all that a store holds."""

from __future__ import annotations

from holdfast.store import reads, tables
from holdfast.store.contract import Asked, Count, Overview
from holdfast.store.engine import Engine
from holdfast.store.sql import Row, Sql


class OverviewCalls(Engine):
    """Numbers."""

    async def overview(self, since: str, limit: int = 100) -> Overview:
        """See the contract."""

        async def question(sql: Sql) -> Overview:
            sessions = await sql.rows("session_counts")
            tasks = await sql.rows("task_counts")
            days = await sql.rows("task_days", since=since)
            rows = await sql.dicts("interrupted_tasks", limit=limit)
            return Overview(
                [Count(*row) for row in sessions],
                [Count(*row) for row in tasks],
                [Count(status, day, count) for day, status, count in days],
                [tables.as_task(reads.task_view(row)) for row in rows],
            )

        return await self.query(question)

    async def asked(self) -> list[Asked]:
        """See the contract."""
        return [Asked(**found) for found in await self.query(reads.asked)]

    async def mark(self) -> object | None:
        """See the contract."""
        return None

    async def native_ids(self, agent: str) -> set[str]:
        """See the contract."""

        async def question(sql: Sql) -> list[Row]:
            return await sql.rows("token_ids", agent=agent)

        return {native_id for (native_id,) in await self.query(question)}
