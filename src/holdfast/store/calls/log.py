"""Calls on the log."""

from __future__ import annotations

from holdfast import errors
from holdfast.model import change as c
from holdfast.model.commit import Commit
from holdfast.model.event import Event, Origin
from holdfast.model.text import decode
from holdfast.store import reads
from holdfast.store.contract import Committed
from holdfast.store.engine import Engine
from holdfast.store.sql import Row


class LogCalls(Engine):
    """Adding to a log and reading it."""

    async def commit(self, commit: Commit) -> Committed:
        """See the contract."""
        if any(isinstance(entry, c.ClaimTask) for entry in commit.entries):
            raise errors.BadInput("a task is claimed by the claim call, which looks at what else runs")
        written = await self._write(commit)
        return Committed(written.seqs, written.dropped, written.unchanged)

    async def events(self, session: str, after: int = 0, limit: int = reads.PAGE) -> list[Event]:
        """See the contract."""
        rows = await self.query(lambda sql: reads.log(sql, session, after, limit))
        return [as_event(row) for row in rows]

    async def event_lines(self, session: str, after: int = 0, limit: int = reads.PAGE) -> list[str]:
        """See the contract."""
        rows = await self.query(lambda sql: reads.log(sql, session, after, limit))
        return [reads.event_json(row) for row in rows]


def as_event(row: Row) -> Event:
    """A log row as an event."""
    seq, kind, at, task, replayed, origin, _spool, _last, body = row
    where = None if origin is None else Origin(**decode(origin))
    return Event(seq, kind, decode(body), at, task, bool(replayed), where)
