"""The past at the head of a run: what the agent's own store has and our log has not, and copies of it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast import errors
from holdfast.agents.agent import Agent
from holdfast.history import adopting
from holdfast.history.reader import Place, Reader
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.task import Task
from holdfast.work.context import Context

if TYPE_CHECKING:
    from holdfast.history.native import Native

log = logging.getLogger(__name__)


async def catch_up(context: Context, task: Task, agent: Agent, native_id: str) -> None:
    """Before a resume: copy the native transcript, and replay what our log lacks of it.

    Another tool's files may hold anything: that they cannot be read is told in the log and stops no run.
    """
    try:
        await _catch_up(context, task, agent, native_id)
    except (errors.HoldfastError, asyncio.CancelledError):
        raise
    except Exception as problem:
        log.exception("task %s: the past of %s", task.id, native_id)
        text = f"the past of this session could not be replayed: {type(problem).__name__}: {problem}"
        event = NewEvent("error", {"text": text, "code": "replay_failed"})
        await context.store.commit(Commit(task.session, [event], task=task.id, generation=task.generation))


async def _catch_up(context: Context, task: Task, agent: Agent, native_id: str) -> None:
    found = await place_of(context, agent, native_id)
    if found is None:
        return
    reader, place = found
    native = _native(context, agent, native_id, reader)
    if await asyncio.to_thread(native.is_level, place):
        return
    await asyncio.to_thread(native.take, place)
    added = await adopting.replay(context.store, task.session, reader, place, task)
    if added:
        log.info("task %s: %d events replayed from %s", task.id, added, place.path)
    await asyncio.to_thread(native.take, place, level=True)


async def keep(context: Context, agent: Agent, native_id: str, *, level: bool) -> None:
    """After a task: copy what is new of the native transcript; `level`: our log has all of it."""
    try:
        found = await place_of(context, agent, native_id)
        if found is not None:
            reader, place = found
            native = _native(context, agent, native_id, reader)
            await asyncio.to_thread(native.take, place, level=level)
    except Exception:
        # The task has ended and is settled; the next resume looks at these files again.
        log.exception("the transcript of %s session %s was not copied", agent.name, native_id)


def _native(context: Context, agent: Agent, native_id: str, reader: Reader) -> Native:
    from holdfast.history.native import Native  # late: no run waits for it before its agent has started

    return Native(context.home.native(agent.name, native_id), native_id, reader)


async def place_of(context: Context, agent: Agent, native_id: str) -> tuple[Reader, Place] | None:
    """The one place where the agent keeps that conversation, if there is just one."""
    if agent.history is None:
        return None
    reader = agent.history()
    env = {**context.env, **context.settings.of(agent.name).env}
    try:
        found = await asyncio.to_thread(reader.find, reader.root(env), native_id)
    except (OSError, errors.StoreBusy, errors.StoreUnreadable) as problem:
        log.warning("the store of %s cannot be read: %s", agent.name, problem)
        return None
    return (reader, found[0]) if len(found) == 1 else None
