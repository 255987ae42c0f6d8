"""Calls on the log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast import errors
from holdfast.model import change as c
from holdfast.model.commit import Commit
from holdfast.model.event import Event, Origin
from holdfast.model.text import decode
from holdfast.store import reads
from holdfast.store.commit import Written
from holdfast.store.contract import Committed
from holdfast.store.engine import Engine, Operation
from holdfast.store.sql import Row

REFUSALS = (errors.Refused, errors.BadInput, errors.NotFound)


class LogCalls(Engine):
    """Adding to a log and reading it."""

    async def commit(self, commit: Commit) -> Committed:
        """See the contract."""
        return await self._committed(self._wanted(commit))

    async def commit_all(self, commits: Sequence[Commit]) -> list[Committed | errors.HoldfastError]:
        """See the contract."""
        # All are made ready before the first is handed in: the writer takes what it finds.
        ready = [self._or_refusal(commit) for commit in commits]
        return list(await asyncio.gather(*[self._answer(operation) for operation in ready]))

    def _or_refusal(self, commit: Commit) -> Operation | errors.HoldfastError:
        try:
            return self._wanted(commit)
        except REFUSALS as refusal:
            return refusal

    async def _answer(self, ready: Operation | errors.HoldfastError) -> Committed | errors.HoldfastError:
        if isinstance(ready, errors.HoldfastError):
            return ready
        try:
            return await self._committed(ready)
        except REFUSALS as refusal:
            return refusal

    def _wanted(self, commit: Commit) -> Operation:
        if any(isinstance(entry, c.ClaimTask) for entry in commit.entries):
            raise errors.BadInput("a task is claimed by the claim call, which looks at what else runs")
        return self._writing(commit)

    async def _committed(self, operation: Operation) -> Committed:
        written: Written = await self.transact(operation)
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
