"""How a task ends whose spool is gone: nobody can read what its agent still writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.model.changes import SetStatus
from holdfast.model.commit import Commit, Entry
from holdfast.model.event import NewEvent
from holdfast.model.task import Task
from holdfast.runner.control import requests
from holdfast.runner.finish import ExitFacts, FinalEntries, ending
from holdfast.runner.processes import TaskProcesses
from holdfast.runner.recorder import OutputRecorder
from holdfast.store.store import Store

SPOOL_LOST = "spool_lost"  # the code of the error
LOOK_S = 0.5  # between checks whether the agent still runs

# Adds what the agent's own store holds to the last entries.
ReadStore = Callable[[list[Entry]], Awaitable[FinalEntries]]


async def finish_without_spool(
    store: Store,
    task: Task,
    family: TaskProcesses,
    journal: OutputRecorder | None,
    read_store: ReadStore,
    why: str,
    code: str = SPOOL_LOST,
) -> None:
    """Say so, wait until the agent is gone, and end the task; its prompt may have been taken."""
    if not any(event.body.get("code") == code for event in await store.task_events(task.id, ("error",))):
        text = f"{why}; what the agent says cannot be heard any more"
        await store.commit(commit_of(task, [NewEvent("error", {"text": text, "code": code})]))
    await family.end_input()  # its final word would not be heard, and without this it would never leave
    cancelled_by = None
    while await family.lives():
        asked = requests(await store.task_events(task.id, ("permission", "notice")))
        if asked.cancels:
            cancelled_by = asked.cancels[0]
            await family.end()
        await asyncio.sleep(LOOK_S)
    final = journal.driver.final if journal is not None else None
    decided = ending(ExitFacts(final, None, accepted=True, cancelled_by=cancelled_by))
    told = await read_store(journal.rest() if journal is not None else [])
    reason = why if decided.status == "interrupted" else decided.reason
    await store.commit(commit_of(task, [*told.entries, SetStatus(status=decided.status, reason=reason)]))


async def only_rest(rest: list[Entry]) -> FinalEntries:
    """Nothing but what is known: the agent's own store may be as large as its output."""
    return FinalEntries(rest)


def commit_of(task: Task, entries: list[Entry]) -> Commit:
    """A commit of the owner of a task."""
    return Commit(task.session, entries, task=task.id, generation=task.generation)
