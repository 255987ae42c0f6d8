"""What people do to a task that is there: stop it, and answer what it asks."""

from __future__ import annotations

from typing import Any

from holdfast.drive.driver import Decision
from holdfast.errors import IllegalChange, StaleGeneration
from holdfast.model.commit import Commit
from holdfast.model.task import ACTIVE, ENDED, Task
from holdfast.store.contract import Store
from holdfast.work import leftovers, requests


async def cancel(store: Store, name: str, by: str, *, twice: bool = False) -> Task:
    """Ask a task to stop, whoever drives it; one that has not begun is cancelled at once.

    Of one whose agent is dead, what it has left running is ended.
    `twice`: without waiting for the agent to stop by itself.
    """
    task = await store.task(await store.resolve_task(name))
    if task.status == "queued":
        try:
            return await store.set_status(task.id, "cancelled", reason=f"by {by}")
        except (StaleGeneration, IllegalChange):  # it has begun since, and may have ended
            task = await store.task(task.id)
    if task.status in ENDED:
        await leftovers.end(store, task, by)
        return task
    wish = requests.cancel(by)
    await store.commit(Commit(task.session, [wish] * (2 if twice else 1), task=task.id))
    return task


async def answer(
    store: Store, name: str, decision: Decision, by: str, *, call: str | None = None
) -> list[dict[str, Any]]:
    """Answer the permission of that call, or all that wait; the answers as they were recorded."""
    task = await store.task(await store.resolve_task(name))
    if task.status not in ACTIVE:
        raise IllegalChange(f"task {task.id} is {task.status}; it waits for no permission")
    asked = requests.waiting(await store.task_events(task.id, ("permission",)))
    answered = []
    for event in requests.choose(asked, call, task.id):
        said = requests.answer(event, decision, by)
        if (await store.commit(Commit(task.session, [said], task=task.id))).seqs:
            answered.append(said.body)
    if not answered:
        raise IllegalChange(f"somebody else has just answered what task {task.id} asked")
    return answered
