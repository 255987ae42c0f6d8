"""What an agent that died did without its stream showing it: its own store may tell more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.agents.agent import Agent
from holdfast.history import adopting
from holdfast.history.align import Known
from holdfast.model.commit import Entry
from holdfast.model.event import NewEvent
from holdfast.model.task import Task
from holdfast.work import replaying
from holdfast.work.context import Context

log = logging.getLogger(__name__)

MANY = 500  # events that go into the commit that ends a task; the next replay brings what is left


class Told(NamedTuple):
    """The last entries of a task, with what the agent's store adds to them."""

    entries: list[Entry]
    took_prompt: bool = False  # the store has the prompt, and the log has not
    level: bool = False  # with these the log has all that the store tells


async def ask(
    context: Context, task: Task, agent: Agent, native_id: str | None, rest: Sequence[Entry]
) -> Told:
    """What the store tells of a task that ended without a final word; `rest`: what its stream left to say.

    Another tool's files may hold anything: that they cannot be read is told in the log and stops no end.
    """
    if native_id is None or agent.history is None:
        return Told(list(rest))
    known = await adopting.past_of(context.store, task.session, agent.history())
    for entry in rest:
        if isinstance(entry, NewEvent) and not _is_interrupted(entry):
            known.add(entry)
    try:
        return await _ask(context, task, agent, native_id, rest, known)
    except Exception as problem:  # of that tool's files only: what is wrong with our own store was said above
        log.exception("task %s: the end of %s", task.id, native_id)
        text = f"what {agent.title} itself recorded could not be read: {type(problem).__name__}: {problem}"
        return Told([*rest, NewEvent("error", {"text": text, "code": "replay_failed"})])


async def _ask(
    context: Context, task: Task, agent: Agent, native_id: str, rest: Sequence[Entry], known: Known
) -> Told:
    found = await replaying.place_of(context, agent, native_id)
    if found is None:
        return Told(list(rest))
    reader, place = found
    events = await asyncio.to_thread(lambda: list(islice(known.missing(reader.events(place)), MANY + 1)))
    entries = merge(rest, events[:MANY])
    if any(isinstance(entry, NewEvent) and entry.replayed for entry in entries):
        entries.append(adopting.border(place))
    took = any(
        event.kind == "user" and task.prompt.strip() in str(event.body.get("text")) for event in events
    )
    return Told(entries, took, len(events) <= MANY)


def merge(rest: Sequence[Entry], unseen: Sequence[NewEvent]) -> list[Entry]:
    """One end for each call: the store's where it has one, else the one that says that none is known."""
    replayed = [replace(event, replayed=True) for event in unseen]
    ends = {e.body.get("call"): e for e in replayed if e.kind == "tool_summary" and not _is_interrupted(e)}
    merged: list[Entry] = []
    closed = set()
    for entry in rest:
        if isinstance(entry, NewEvent) and _is_interrupted(entry):
            call = entry.body.get("call")
            closed.add(call)
            entry = ends.get(call, entry)
        merged.append(entry)
    others = [e for e in replayed if not (e.kind == "tool_summary" and e.body.get("call") in closed)]
    return [*merged, *others]


def _is_interrupted(event: NewEvent) -> bool:
    return event.kind == "tool_summary" and event.body.get("outcome") == "interrupted"
