"""The calls of a `Store` that follow the changes of all sessions, in commit order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from holdfast.store import reads
from holdfast.store import rows as tables
from holdfast.store.backend import Backend
from holdfast.store.sql import Row, Sql
from holdfast.store.types import (
    ChangeFeedEntry,
    ChangeFeedPage,
)


class FeedCalls(Backend):
    """The change feed."""

    async def cursor(self) -> str:
        """The present end of the change feed."""
        epoch, last = await self.query(_end)
        return f"{epoch}.{last}"

    async def changes(self, after: str | None = None, limit: int = reads.PAGE) -> ChangeFeedPage:
        """Records of all sessions after a cursor, in commit order."""
        return await self.query_long(_question(after, limit), _as_changes)

    async def follow(self, after: str | None = None) -> AsyncIterator[ChangeFeedPage]:
        """`changes` without end, also of what other processes and hosts write; none is missed."""
        behind = True
        async with self.listen() as ear:
            while True:
                ear.clear()
                # A moment's news is a few records, which are read without a thread.
                found = await self.changes(after) if behind else await self._latest(after)
                after, behind = found.cursor, found.more
                if found.changes or found.gap:
                    yield found
                if not found.more:
                    await ear.wait()

    async def _latest(self, after: str | None) -> ChangeFeedPage:
        return _as_changes(await self.query(_question(after, reads.PAGE)))


def _question(after: str | None, limit: int) -> Callable[[Sql], Awaitable[_FeedRows]]:
    reads.check_limit(limit)

    async def question(sql: Sql) -> _FeedRows:
        epoch, last = await _end(sql)
        place, gap = _place(after, epoch, last)
        rows = await sql.rows("changes", budget=reads.PAGE_CHARACTERS, after=place, limit=limit)
        return _FeedRows(epoch, last, place, rows, gap)

    return question


class _FeedRows(NamedTuple):
    """What the database answers about the feed."""

    epoch: str
    last: int
    place: int
    rows: list[Row]
    gap: bool


def _as_changes(news: _FeedRows) -> ChangeFeedPage:
    epoch, rows = news.epoch, news.rows
    found = [ChangeFeedEntry(f"{epoch}.{row[0]}", row[1], tables.as_event(row[2:])) for row in rows]
    end = rows[-1][0] if rows else news.place
    return ChangeFeedPage(found, f"{epoch}.{end}", news.gap, end < news.last)


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
