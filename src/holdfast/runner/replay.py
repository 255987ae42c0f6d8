"""The past at the head of a run: what the agent's own store has and our log has not, and copies of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from holdfast import errors
from holdfast.agents.base import Agent
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.task import Task
from holdfast.runner.context import Context
from holdfast.transcripts import importer
from holdfast.transcripts.reader import SessionRef, TranscriptReader

if TYPE_CHECKING:
    from holdfast.transcripts.backups import TranscriptBackup

log = logging.getLogger(__name__)

THEIRS = (errors.StoreBusy, errors.StoreUnreadable)  # of what is raised while another tool's files are read

T = TypeVar("T")


async def catch_up(context: Context, task: Task, agent: Agent, native_id: str) -> None:
    """Before a resume: copy the native transcript, and replay what our log lacks of it.

    Another tool's files may hold anything: that they cannot be read is told in the log and stops no run.
    """
    found = await _read(context, task, native_id, lambda: _copied(context, agent, native_id))
    if found is None:
        return
    reader, place = found
    known = await importer.load_known_events(context.store, task.session, reader)
    past = await _read(context, task, native_id, lambda: list(known.missing(reader.events(place))))
    if past is None:
        return
    added = await importer.replay(context.store, task, known, past, place)
    if added:
        log.info("task %s: %d events replayed from %s", task.id, added, place.path)
    await keep(context, agent, native_id, level=True)


async def _read(context: Context, task: Task, native_id: str, read: Callable[[], T | None]) -> T | None:
    """What is read of another tool's files; None, and a word in the log, if they cannot be read."""
    try:
        return await asyncio.to_thread(read)
    except Exception as problem:
        if isinstance(problem, errors.HoldfastError) and not isinstance(problem, THEIRS):
            raise
        log.exception("task %s: the past of %s", task.id, native_id)
        text = f"the past of this session could not be replayed: {type(problem).__name__}: {problem}"
        event = NewEvent("error", {"text": text, "code": "replay_failed"})
        await context.store.commit(Commit(task.session, [event], task=task.id, generation=task.generation))
        return None


def _copied(context: Context, agent: Agent, native_id: str) -> tuple[TranscriptReader, SessionRef] | None:
    """Where it is, once it is copied; None if it is nowhere, or our log has all of it."""
    found = _find(context, agent, native_id)
    if found is None:
        return None
    reader, place = found
    native = _native(context, agent, native_id, reader)
    if native.is_level(place):
        return None
    native.update(place)
    return reader, place


async def keep(context: Context, agent: Agent, native_id: str, *, level: bool) -> None:
    """After a task: copy what is new of the native transcript; `level`: our log has all of it."""
    try:
        found = await place_of(context, agent, native_id)
        if found is not None:
            reader, place = found
            native = _native(context, agent, native_id, reader)
            await asyncio.to_thread(native.update, place, level=level)
    except Exception:
        # The task has ended and is settled; the next resume looks at these files again.
        log.exception("the transcript of %s session %s was not copied", agent.name, native_id)


def _native(context: Context, agent: Agent, native_id: str, reader: TranscriptReader) -> TranscriptBackup:
    from holdfast.transcripts.backups import (
        TranscriptBackup,  # late: no run waits for it before its agent has started
    )

    return TranscriptBackup(context.home.native(agent.name, native_id), native_id, reader)


async def place_of(
    context: Context, agent: Agent, native_id: str
) -> tuple[TranscriptReader, SessionRef] | None:
    """The one place where the agent keeps that conversation, if there is just one."""
    return await asyncio.to_thread(_find, context, agent, native_id)


def _find(context: Context, agent: Agent, native_id: str) -> tuple[TranscriptReader, SessionRef] | None:
    if agent.history is None:
        return None
    reader = agent.history()
    env = {**context.env, **context.settings.of(agent.name).env}
    found = reader.find(reader.root(env), native_id)
    return (reader, found[0]) if len(found) == 1 else None
