"""The calls of a `Store` for its outbox of notifications."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store.backend import Backend, OperationResult
from holdfast.store.sql import Sql
from holdfast.store.types import Notification

AT_ONCE = 100  # that are read together


class NotificationCalls(Backend):
    """Notifications that wait to be sent, or were; and how far the log was read for them."""

    async def notify_cursor(self, node: str) -> str | None:
        """The place in the change feed up to which a node has queued notifications."""
        rows = await self.query(lambda sql: sql.rows("meta", name=_place(node)))
        return str(rows[0][0]) if rows else None

    async def queue_notifications(self, node: str, cursor: str, found: Sequence[Notification]) -> None:
        """Queue notifications and move the place in the feed, together; one that is there is left alone."""

        async def operation(sql: Sql) -> OperationResult:
            for one in found:
                await sql.run("put_notification", **one._asdict())
            await sql.run("set_meta", name=_place(node), value=cursor)
            return OperationResult(None)

        await self.transact(operation)

    async def update_notification(self, one: Notification) -> None:
        """Record what became of a notification."""

        async def operation(sql: Sql) -> OperationResult:
            await sql.run(
                "set_notification",
                id=one.id,
                due_at=one.due_at,
                status=one.status,
                tries=one.tries,
                problem=one.problem,
                ended_at=one.ended_at,
            )
            return OperationResult(None)

        await self.transact(operation)

    async def due_notifications(self, node: str, now: str) -> list[Notification]:
        """The notifications of a node whose time has come, the oldest first."""
        rows = await self.query(lambda sql: sql.dicts("due_notifications", node=node, now=now, limit=AT_ONCE))
        return [Notification(**row) for row in rows]

    async def next_notification(self, node: str) -> str | None:
        """When the next one of a node is due."""
        rows = await self.query(lambda sql: sql.rows("next_notification", node=node))
        return None if rows[0][0] is None else str(rows[0][0])

    async def trim_notifications(self, before: str) -> None:
        """Forget those that ended before a time."""

        async def operation(sql: Sql) -> OperationResult:
            await sql.run("trim_notifications", before=before)
            return OperationResult(None)

        if await self.query(lambda sql: sql.rows("old_notification", before=before)):
            await self.transact(operation)


def _place(node: str) -> str:
    return f"notify:{node}"
