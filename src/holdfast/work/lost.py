"""A task whose stdio on disk is gone: it cannot be followed any more, only waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.model.change import SetStatus
from holdfast.model.commit import Commit, Entry
from holdfast.model.event import NewEvent
from holdfast.model.task import Task
from holdfast.store.contract import Store
from holdfast.work.ending import Facts, ending
from holdfast.work.family import Family
from holdfast.work.journal import Journal
from holdfast.work.requests import requests
from holdfast.work.unseen import Told

CODE = "spool_lost"
LOOK_S = 0.5

Tell = Callable[[list[Entry]], Awaitable[Told]]  # what the agent's own store adds to the last entries


async def settle(
    store: Store, task: Task, family: Family, journal: Journal | None, tell: Tell, why: str
) -> None:
    """Say so, wait until the agent is gone, and end the task; its prompt may have been taken."""
    if not any(event.body.get("code") == CODE for event in await store.task_events(task.id, ("error",))):
        text = f"{why}; what the agent says cannot be heard any more"
        await store.commit(_commit(task, [NewEvent("error", {"text": text, "code": CODE})]))
    await family.end_input()  # its final word would not be heard, and without this it would never leave
    cancelled_by = None
    while await family.lives():
        asked = requests(await store.task_events(task.id, ("permission", "notice")))
        if asked.cancels:
            cancelled_by = asked.cancels[0]
            await family.end()
        await asyncio.sleep(LOOK_S)
    final = journal.driver.final if journal is not None else None
    decided = ending(Facts(final, None, accepted=True, cancelled_by=cancelled_by))
    told = await tell(journal.rest() if journal is not None else [])
    reason = why if decided.status == "interrupted" else decided.reason
    await store.commit(_commit(task, [*told.entries, SetStatus(status=decided.status, reason=reason)]))


def _commit(task: Task, entries: list[Entry]) -> Commit:
    return Commit(task.session, entries, task=task.id, generation=task.generation)
