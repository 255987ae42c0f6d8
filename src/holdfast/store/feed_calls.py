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
        """The current end of the change feed."""
        epoch, last = await self.query(_end)
        return f"{epoch}.{last}"

    async def changes(self, after: str | None = None, limit: int = reads.PAGE) -> ChangeFeedPage:
        """Records of all sessions after a cursor, in commit order."""
        return await self.query_long(_question(after, limit), _as_changes)

    async def follow(self, after: str | None = None) -> AsyncIterator[ChangeFeedPage]:
        """`changes` without end, also those of other processes and hosts. None is missed."""
        behind = True
        async with self.listen() as listener:
            while True:
                listener.clear()
                # A caught-up reader gets a few records, which need no thread.
                page = await self.changes(after) if behind else await self._latest(after)
                after, behind = page.cursor, page.more
                if page.changes or page.gap:
                    yield page
                if not page.more:
                    await listener.wait()

    async def _latest(self, after: str | None) -> ChangeFeedPage:
        return _as_changes(await self.query(_question(after, reads.PAGE)))


def _question(after: str | None, limit: int) -> Callable[[Sql], Awaitable[_FeedRows]]:
    reads.check_limit(limit)

    async def question(sql: Sql) -> _FeedRows:
        epoch, last = await _end(sql)
        start, gap = _start(after, epoch, last)
        rows = await sql.rows("changes", budget=reads.PAGE_CHARACTERS, after=start, limit=limit)
        return _FeedRows(epoch, last, start, rows, gap)

    return question


class _FeedRows(NamedTuple):
    """The rows of one page of the feed."""

    epoch: str
    last: int
    start: int
    rows: list[Row]
    gap: bool


def _as_changes(feed: _FeedRows) -> ChangeFeedPage:
    epoch, rows = feed.epoch, feed.rows
    entries = [ChangeFeedEntry(f"{epoch}.{row[0]}", row[1], tables.as_event(row[2:])) for row in rows]
    end = rows[-1][0] if rows else feed.start
    return ChangeFeedPage(entries, f"{epoch}.{end}", feed.gap, end < feed.last)


async def _end(sql: Sql) -> tuple[str, int]:
    epoch = (await sql.rows("meta", name="epoch"))[0][0]
    return epoch, (await sql.rows("last_log"))[0][0]


def _start(cursor: str | None, epoch: str, last: int) -> tuple[int, bool]:
    """The id that a cursor names, and whether it belongs to another feed."""
    if cursor is None:
        return 0, False
    theirs, _, number = cursor.partition(".")
    if theirs != epoch or not reads.is_number(number) or int(number) > last:
        return 0, True
    return int(number), False
