"""How does an agent's own history get into our log? As replayed events, in order and never twice."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast import errors, ids
from holdfast.model.changes import Create, SeeToken
from holdfast.model.commit import Commit
from holdfast.model.event import Event, NewEvent
from holdfast.model.task import Task
from holdfast.store.store import Store
from holdfast.transcripts.dedupe import REPLAY_MARKER, KnownEvents
from holdfast.transcripts.reader import SessionRef, TranscriptReader

BATCH = 1000  # entries per commit


class TranscriptImport(NamedTuple):
    """The result of importing one native session."""

    session: str
    new: bool  # the session did not exist before
    events: int  # number of events added


ImportOutcome = TranscriptImport | errors.HoldfastError | OSError


async def import_sessions(
    store: Store,
    reader: TranscriptReader,
    refs: Sequence[SessionRef],
    *,
    host: str,
    protocol: Callable[[SessionRef], str | None],
    check_id: Callable[[SessionRef], None],
) -> list[ImportOutcome]:
    """Import each native session: create a session for it, or add the events that ours lacks.

    `check_id` refuses a session whose id its agent cannot have.

    The last commit of every session is sent to the store in one batch at the end. A session that fails does
    not stop the others.
    """
    came: list[ImportOutcome] = []
    ends: dict[int, Commit] = {}

    async def settle() -> None:
        for number, answer in zip(ends, await store.commit_all(list(ends.values())), strict=True):
            if isinstance(answer, errors.HoldfastError):
                came[number] = answer
        ends.clear()

    for ref in refs:
        if any(refs[number].native_id == ref.native_id for number in ends):
            await settle()  # this one must find the session that the earlier one creates
        try:
            check_id(ref)
            adopted, end = await _import_session(store, reader, ref, host, protocol(ref))
        except (errors.Refused, errors.BadInput, errors.StoreUnreadable, OSError) as problem:
            came.append(problem)
            continue
        came.append(adopted)
        if end.entries:
            ends[len(came) - 1] = end
    await settle()
    return came


async def _import_session(
    store: Store, reader: TranscriptReader, ref: SessionRef, host: str, protocol: str | None
) -> tuple[TranscriptImport, Commit]:
    """Import one session; return the result and the commit that is still to do."""
    known = await store.sessions_of_token(ref.agent, ref.native_id)
    if known:
        count, end = await _replay(store, Commit(known[0]), reader, ref)
        return TranscriptImport(known[0], False, count), end
    session = ids.new(ids.SESSION)
    created = Create(
        agent=ref.agent,
        cwd=ref.cwd,
        host=host,
        title=ref.title,
        worktree=ref.worktree,
        metadata={"imported_from": ref.path},
    )
    token = SeeToken(agent=ref.agent, native_id=ref.native_id, protocol=protocol, seen_in="import")
    # The token is in the first commit, so a later import finds a partial one after a crash and completes it.
    # The session is as old as its transcript: lists order sessions by their last activity.
    events = iter(reader.events(ref))
    oldest = next(events, None)
    past = events if oldest is None else itertools.chain([oldest], events)
    began = oldest.at if oldest is not None else None
    first = Commit(session, [created, token], at=began or ref.updated_at)
    count, end = await append_replayed(store, first, past, replay_marker(ref))
    return TranscriptImport(session, True, count), end


async def replay(
    store: Store, task: Task, known: KnownEvents, events: Iterable[NewEvent], ref: SessionRef
) -> int:
    """Append the stored events that the log of a task's session lacks, and mark where they end.

    The events are marked as replayed, so nothing acts on them. `known` is what the log has, `events` what it
    lacks. After a crash the same call adds only what is still missing.
    """
    first = Commit(task.session, (), task.id, task.generation)
    count, end = await append_replayed(store, first, events, replay_marker(ref), known.unmarked)
    if end.entries:
        await store.commit(end)
    return count


async def _replay(
    store: Store, first: Commit, reader: TranscriptReader, ref: SessionRef
) -> tuple[int, Commit]:
    known = await load_known_events(store, first.session, reader)
    missing = known.missing(reader.events(ref))
    return await append_replayed(store, first, missing, replay_marker(ref), known.unmarked)


async def append_replayed(
    store: Store, first: Commit, events: Iterable[NewEvent], end: NewEvent, unmarked: bool = False
) -> tuple[int, Commit]:
    """Append events after the entries of the first commit.

    Return their number and the last commit, still to do.

    `end` is the marker after them; `unmarked`: it is needed even without new events.
    """
    entries, count = list(first.entries), 0
    last = first.at
    for event in events:
        last = event.at or last
        entries.append(replace(event, replayed=True, at=last))
        count += 1
        if len(entries) >= BATCH:
            await store.commit(replace(first, entries=entries))
            entries = []
    if count or unmarked:
        entries.append(replace(end, at=last))  # the import itself is no activity of the session
    return count, replace(first, entries=entries)


def replay_marker(ref: SessionRef) -> NewEvent:
    """The notice after replayed events."""
    text = f"Replayed from session {ref.native_id}"
    body = {"text": text, "code": REPLAY_MARKER, "native_id": ref.native_id, "path": ref.path}
    return NewEvent("notice", body, replayed=True)


async def load_known_events(
    store: Store, session: str, reader: TranscriptReader | None = None
) -> KnownEvents:
    """Load what a session's log holds, to compare it with the agent's store."""
    known = KnownEvents(reader.wording if reader is not None else None)
    after = 0
    while page := await store.events(session, after=after):
        after = page[-1].seq
        await asyncio.to_thread(_add_all, known, page)
    return known


def _add_all(known: KnownEvents, events: Sequence[Event]) -> None:
    for event in events:
        known.add(event)
