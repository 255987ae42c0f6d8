"""The call that queues a judged prompt."""

from __future__ import annotations

from holdfast.model.task import Task
from holdfast.store import dispatching
from holdfast.store.contract import Dispatch
from holdfast.store.engine import Engine, Outcome
from holdfast.store.sql import Sql


class DispatchCalls(Engine):
    """From a judgement into the queue."""

    async def dispatch(self, dispatch: Dispatch) -> Task:
        """See the contract."""

        async def operation(sql: Sql) -> Outcome:
            task = await dispatching.dispatch(sql, dispatch, self._rules)
            old = () if dispatch.replaces is None else (dispatch.replaces.session,)
            return Outcome(task, task.session, old)

        task: Task = await self.transact(operation)
        return task
