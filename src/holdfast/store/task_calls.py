"""The calls of a `Store` that read, queue, claim and finish tasks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast import errors, ids, timestamps
from holdfast.model import changes as c
from holdfast.model.commit import Commit
from holdfast.model.event import Event
from holdfast.model.json_codec import encode
from holdfast.model.task import Delivery, OpenTask, Owner, QueueEntry, Status, Task
from holdfast.store import reads, writes
from holdfast.store import rows as tables
from holdfast.store.backend import Backend, OperationResult
from holdfast.store.sql import Sql
from holdfast.store.types import (
    Dispatch,
)


class TaskCalls(Backend):
    """The queue of prompts, and the owners of running tasks."""

    async def enqueue(
        self,
        session: str,
        prompt: str,
        *,
        options: dict[str, Any] | None = None,
        retry_of: str | None = None,
    ) -> Task:
        """Queue a prompt. With `retry_of`: the only retry of that task."""
        task = ids.new(ids.TASK)
        change = c.QueueTask(prompt=prompt, options=options or {}, retry_of=retry_of)
        written = await self._write(Commit(session, [change], task=task))
        return written.view.tasks[task]

    async def resolve_task(self, name: str) -> str:
        """The id of the task with this id or unique beginning of an id."""
        return await self.query(lambda sql: reads.resolve_task(sql, name))

    async def resolve_target(self, name: str) -> tuple[str, str]:
        """What `name` means: ("task", id) or ("session", id), the latter also by its key."""
        return await self.query(lambda sql: reads.resolve_target(sql, name))

    async def task(self, task: str) -> Task:
        """One task."""
        return tables.as_task(await self.query(lambda sql: reads.task(sql, task)))

    async def tasks(self, *, session: str = "", status: str = "", limit: int = reads.ALL) -> list[Task]:
        """All tasks in queue order. The list has no limit, so no decision may depend on it."""
        return await self.query_long(
            lambda sql: reads.tasks(sql, session=session, status=status, limit=limit), _as_tasks
        )

    async def open_tasks(self, session: str) -> list[OpenTask]:
        """The tasks of a session that have not ended, in queue order."""
        rows = await self.query(lambda sql: reads.open_tasks(sql, session))
        return [msgspec.convert(row, OpenTask) for row in rows]

    async def first_task(self, session: str) -> Task | None:
        """The first queued task of a session."""
        view = await self.query(lambda sql: reads.first_task(sql, session))
        return None if view is None else tables.as_task(view)

    async def started_tasks(self, session: str, *, but: str = "", limit: int = 1) -> list[Task]:
        """The last tasks that reached, or may have reached, the agent; latest first, without `but`.

        Without tasks that were only queued or whose launch failed: they changed nothing.
        """
        views = await self.query(lambda sql: reads.started_tasks(sql, session, but=but, limit=limit))
        return [tables.as_task(view) for view in views]

    async def first_started_task(self, session: str) -> Task | None:
        """The first task of a session that reached, or may have reached, the agent."""
        view = await self.query(lambda sql: reads.first_started_task(sql, session))
        return None if view is None else tables.as_task(view)

    async def started_count(self, session: str) -> int:
        """How many tasks of a session reached, or may have reached, the agent."""
        return await self.query(lambda sql: reads.started_count(sql, session))

    async def has_unsuccessful(self, session: str) -> bool:
        """Whether any task of a session was interrupted, cancelled or failed."""
        return await self.query(lambda sql: reads.has_unsuccessful(sql, session))

    async def redispatchable_tasks(
        self,
        key: str = "",
        *,
        session: str = "",
        task: str = "",
        statuses: Sequence[str] = ("interrupted",),
    ) -> list[Task]:
        """The tasks that can be retried, of a key, a session or all, in queue order.

        Each is the last started task of a live session, without a retry.
        """
        views = await self.query(
            lambda sql: reads.redispatchable_tasks(sql, key, session=session, task=task, statuses=statuses)
        )
        return [tables.as_task(view) for view in views]

    async def key_has_tasks(self, key: str) -> bool:
        """Whether any session of a key, live or not, has a task."""
        return await self.query(lambda sql: reads.key_has_tasks(sql, key))

    async def delivered_tasks(self, key: str, delivery: str) -> list[Task]:
        """The tasks of a key's sessions whose source names that delivery of a forge."""
        text = f'"delivery":{encode(delivery).decode()}'
        views = await self.query(lambda sql: reads.tasks_with_option(sql, key, text))
        tasks = [tables.as_task(view) for view in views]
        return [task for task in tasks if _delivery(task) == delivery]

    async def turns(self) -> list[QueueEntry]:
        """Running tasks and queued ones of live sessions, in queue order."""
        return await self.query_long(reads.turns, lambda rows: msgspec.convert(rows, list[QueueEntry]))

    async def unrecorded(self, host: str, code: str) -> list[str]:
        """Live sessions of a host whose token comes from an unrecorded run and that have no notice `code`."""
        return await self.query_long(lambda sql: reads.unrecorded(sql, host, code), list)

    async def latest_tasks(
        self, *, session: str = "", status: str = "", cwd: str = "", day: str = "", limit: int = 50
    ) -> list[Task]:
        """Tasks of a session, or of all sessions in a folder, the last queued one first.

        `day`: on which they ended, or were queued if they have not ended (UTC, as 2026-01-31).
        """
        return await self.query_long(
            lambda sql: reads.latest_tasks(
                sql, session=session, status=status, cwd=cwd, day=day, limit=limit
            ),
            lambda views: [tables.listed_task(view) for view in views],
        )

    async def last_tasks(self, status: Status, limit: int) -> list[Task]:
        """The tasks with this status that are the last of their live session; the last queued one first."""
        return await self.query_long(
            lambda sql: reads.last_tasks(sql, status, limit),
            lambda views: [tables.listed_task(view) for view in views],
        )

    async def task_events(self, task: str, kinds: tuple[str, ...]) -> list[Event]:
        """The records of one task with these kinds, in order."""
        return await self.query_long(lambda sql: reads.task_log(sql, task, kinds), tables.as_events)

    async def claim(self, task: str, generation: int, owner: Owner, lease_s: float) -> Task:
        """Become the only owner of a task that is still in that generation.

        SessionRunning if another task drives the same session or native conversation. Prompts of an
        archived session wait until it is unarchived. Taking over an active task is allowed: the caller
        must know that its owner is dead.
        """

        async def operation(sql: Sql) -> OperationResult:
            until = timestamps.stamp(time.time() + lease_s)
            claimed = await writes.claim(sql, task, generation, owner, until, self._rules)
            return OperationResult(claimed, claimed.session)

        claimed: Task = await self.transact(operation)
        return claimed

    async def renew(self, task: str, generation: int, lease_s: float) -> None:
        """Extend the lease. StaleGeneration if another owner has the task. Adds no record."""

        async def operation(sql: Sql) -> OperationResult:
            until = timestamps.stamp(time.time() + lease_s)
            sql.forget()
            if not ids.is_id(task, ids.TASK) or not await sql.run(
                "put_lease", id=task, generation=generation, lease_until=until
            ):
                raise errors.StaleGeneration(f"task {task} is no longer in generation {generation}")
            return OperationResult(None)

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
        """Set the status of a task. An active one needs the generation of its owner."""
        change = c.SetStatus(status=status, reason=reason, outcome=outcome)
        return await self._change_task(task, change, generation)

    async def deliver(self, task: str, delivery: Delivery, generation: int) -> Task:
        """Record how far the prompt has reached the agent."""
        return await self._change_task(task, c.Deliver(delivery=delivery), generation)

    async def _change_task(self, task: str, change: c.Change, generation: int | None) -> Task:
        session = (await self.task(task)).session
        commit = Commit(session, [change], task=task, generation=generation)
        return (await self._write(commit)).view.tasks[task]

    async def dispatch(self, dispatch: Dispatch) -> Task:
        """Queue a prompt in the session that a verdict has chosen, all or nothing.

        SessionRunning, with the task, if the session has an open task. PlanChanged if the log has grown
        since the verdict. A replaced session is archived, and its queued prompts move with its key.
        `unarchive_by` unarchives the session and takes its key back from the session that it replaces,
        which must have no open task.
        """

        async def operation(sql: Sql) -> OperationResult:
            task = await writes.dispatch(sql, dispatch, self._rules)
            old = () if dispatch.replaces is None else (dispatch.replaces.session,)
            return OperationResult(task, task.session, old)

        task: Task = await self.transact(operation)
        return task


def _as_tasks(views: list[dict[str, Any]]) -> list[Task]:
    return [tables.as_task(view) for view in views]


def _delivery(task: Task) -> str | None:
    source = task.options.get("source")
    return source.get("delivery") if isinstance(source, dict) else None
