"""Ending what a dead run has left running, for somebody who cancels a task that has ended already."""

from __future__ import annotations

import asyncio

from holdfast.errors import IllegalChange
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.task import Task
from holdfast.process import ending, tree
from holdfast.process.tree import Process
from holdfast.resume import survivors
from holdfast.store.contract import Store
from holdfast.work.family import TERM_S, shown

CODE = "leftovers_ended"


async def end(store: Store, task: Task, by: str) -> list[Process]:
    """End the processes that carry a dead task's mark, and note who asked; those that were ended.

    IllegalChange if nothing of it runs here. What a task that succeeded has left running is meant to run.
    """
    found = await asyncio.to_thread(_look, task.id) if task.status in survivors.DEAD else []
    if not found:
        raise IllegalChange(f"task {task.id} is {task.status} already")
    stayed = await ending.end(found, TERM_S, look=lambda: _look(task.id))
    ended = [process for process in found if process not in stayed]
    named = ", ".join(survivors.Process(process.pid, process.command).shown() for process in ended[:5])
    text = f"{by} ended what the task had left running: {named}" + (" …" if len(ended) > 5 else "")
    body = {"text": text, "code": CODE, "by": by, "ended": shown(ended), "stayed": shown(stayed)}
    await store.commit(Commit(task.session, [NewEvent("notice", body)], task=task.id))
    return ended


def _look(task: str) -> list[Process]:
    return tree.survivors(task, ())
