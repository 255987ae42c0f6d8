"""Calls on tasks."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from holdfast import clock, errors, ids
from holdfast.model import change as c
from holdfast.model.commit import Commit
from holdfast.model.event import Event
from holdfast.model.task import Delivery, Owner, Status, Task, Turn
from holdfast.store import commit as writes
from holdfast.store import reads, tables
from holdfast.store.calls.log import as_event
from holdfast.store.engine import Engine, Outcome
from holdfast.store.sql import Sql


class TaskCalls(Engine):
    """The queue, and who owns what runs."""

    async def enqueue(
        self,
        session: str,
        prompt: str,
        *,
        options: dict[str, Any] | None = None,
        retry_of: str | None = None,
    ) -> Task:
        """See the contract."""
        task = ids.new(ids.TASK)
        change = c.QueueTask(prompt=prompt, options=options or {}, retry_of=retry_of)
        written = await self._write(Commit(session, [change], task=task))
        return written.view.tasks[task]

    async def resolve_task(self, name: str) -> str:
        """See the contract."""
        return await self.query(lambda sql: reads.resolve_task(sql, name))

    async def task(self, task: str) -> Task:
        """See the contract."""
        return tables.as_task(await self.query(lambda sql: reads.task(sql, task)))

    async def tasks(self, *, session: str = "", status: str = "", limit: int = 1000) -> list[Task]:
        """See the contract."""
        views = await self.query(lambda sql: reads.tasks(sql, session=session, status=status, limit=limit))
        return [tables.as_task(view) for view in views]

    async def turns(self) -> list[Turn]:
        """See the contract."""
        return msgspec.convert(await self.query(reads.turns), list[Turn])

    async def unrecorded(self, host: str, code: str) -> list[str]:
        """Live sessions there whose token an unrecorded run has brought, but those told of with `code`."""
        return await self.query(lambda sql: reads.unrecorded(sql, host, code))

    async def latest_tasks(
        self, *, session: str = "", status: str = "", cwd: str = "", day: str = "", limit: int = 50
    ) -> list[Task]:
        """See the contract."""
        views = await self.query(
            lambda sql: reads.latest_tasks(sql, session=session, status=status, cwd=cwd, day=day, limit=limit)
        )
        return [tables.as_task(view) for view in views]

    async def task_events(self, task: str, kinds: tuple[str, ...]) -> list[Event]:
        """See the contract."""
        rows = await self.query(lambda sql: reads.task_log(sql, task, kinds))
        return [as_event(row) for row in rows]

    async def claim(self, task: str, generation: int, owner: Owner, lease_s: float) -> Task:
        """See the contract."""

        async def operation(sql: Sql) -> Outcome:
            until = clock.stamp(time.time() + lease_s)
            claimed = await writes.claim(sql, task, generation, owner, until, self._rules)
            return Outcome(claimed, claimed.session)

        claimed: Task = await self.transact(operation)
        return claimed

    async def claim_next(
        self,
        owner: Owner,
        lease_s: float,
        *,
        agents: frozenset[str] | None = None,
        any_host: bool = False,
    ) -> Task | None:
        """See the contract."""

        async def operation(sql: Sql) -> Outcome:
            until = clock.stamp(time.time() + lease_s)
            found = await writes.claim_next(sql, owner, until, agents, any_host, self._rules)
            return Outcome(found, found.session) if found else Outcome(None)

        claimed: Task | None = await self.transact(operation)
        return claimed

    async def renew(self, task: str, generation: int, lease_s: float) -> None:
        """See the contract."""

        async def operation(sql: Sql) -> Outcome:
            until = clock.stamp(time.time() + lease_s)
            sql.forget()
            if not ids.is_id(task, ids.TASK) or not await sql.run(
                "put_lease", id=task, generation=generation, lease_until=until
            ):
                raise errors.StaleGeneration(f"task {task} is not in generation {generation} any more")
            return Outcome(None)

        await self.transact(operation)

    async def set_status(
        self,
        task: str,
        status: Status,
        *,
        generation: int | None = None,
        reason: str | None = None,
        outcome: dict[str, Any] | None = None,
    ) -> Task:
        """See the contract."""
        change = c.SetStatus(status=status, reason=reason, outcome=outcome)
        return await self._change_task(task, change, generation)

    async def deliver(self, task: str, delivery: Delivery, generation: int) -> Task:
        """See the contract."""
        return await self._change_task(task, c.Deliver(delivery=delivery), generation)

    async def _change_task(self, task: str, change: c.Change, generation: int | None) -> Task:
        session = (await self.task(task)).session
        commit = Commit(session, [change], task=task, generation=generation)
        return (await self._write(commit)).view.tasks[task]
