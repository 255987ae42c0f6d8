"""Calls on the change feed."""

from __future__ import annotations

from collections.abc import AsyncIterator

from holdfast.store import reads
from holdfast.store.calls.log import as_event
from holdfast.store.contract import Change, Changes
from holdfast.store.engine import Engine
from holdfast.store.sql import Row, Sql


class FeedCalls(Engine):
    """News of all sessions, in commit order."""

    async def cursor(self) -> str:
        """See the contract."""
        epoch, last = await self.query(_end)
        return f"{epoch}.{last}"

    async def changes(self, after: str | None = None, limit: int = reads.PAGE) -> Changes:
        """See the contract."""

        reads.check_limit(limit)

        async def question(sql: Sql) -> tuple[str, int, list[Row], bool]:
            epoch, last = await _end(sql)
            place, gap = _place(after, epoch, last)
            rows = await sql.rows("changes", budget=reads.PAGE_CHARACTERS, after=place, limit=limit)
            return epoch, last, [(place,), *rows], gap

        epoch, last, ((place,), *rows), gap = await self.query(question)
        found = [Change(f"{epoch}.{row[0]}", row[1], as_event(row[2:])) for row in rows]
        end = rows[-1][0] if rows else place
        return Changes(found, f"{epoch}.{end}", gap, end < last)

    async def follow(self, after: str | None = None) -> AsyncIterator[Changes]:
        """See the contract."""
        async with self.listen() as ear:
            while True:
                ear.clear()
                found = await self.changes(after)
                after = found.cursor
                if found.changes or found.gap:
                    yield found
                if not found.more:
                    await ear.wait()


async def _end(sql: Sql) -> tuple[str, int]:
    epoch = (await sql.rows("meta", name="epoch"))[0][0]
    return epoch, (await sql.rows("last_log"))[0][0]


def _place(cursor: str | None, epoch: str, last: int) -> tuple[int, bool]:
    """Where a cursor points, and whether it is not one of this feed's."""
    if cursor is None:
        return 0, False
    theirs, _, number = cursor.partition(".")
    if theirs != epoch or not reads.is_number(number) or int(number) > last:
        return 0, True
    return int(number), False
