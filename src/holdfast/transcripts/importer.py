"""Bringing an agent's own history into our log: replayed, in order, and never twice."""

from __future__ import annotations

import asyncio
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

BATCH = 1000  # entries a commit


class TranscriptImport(NamedTuple):
    """What came of one native session."""

    session: str
    new: bool  # whether it was not here before
    events: int  # added


Came = TranscriptImport | errors.HoldfastError | OSError


async def adopt_all(
    store: Store,
    reader: TranscriptReader,
    places: Sequence[SessionRef],
    *,
    host: str,
    protocol: Callable[[SessionRef], str | None],
    check_id: Callable[[SessionRef], None],
) -> list[Came]:
    """A session of ours for each native one: made if there is none, and given what it lacks.

    `check_id` refuses a session whose id its agent cannot have.

    The ends of all of them go to the store together, after the last was read. One that cannot be taken
    does not stop the rest.
    """
    came: list[Came] = []
    ends: dict[int, Commit] = {}

    async def settle() -> None:
        for number, answer in zip(ends, await store.commit_all(list(ends.values())), strict=True):
            if isinstance(answer, errors.HoldfastError):
                came[number] = answer
        ends.clear()

    for ref in places:
        if any(places[number].native_id == ref.native_id for number in ends):
            await settle()  # this one must find what that one makes
        try:
            check_id(ref)
            adopted, end = await _adopt(store, reader, ref, host, protocol(ref))
        except (errors.Refused, errors.BadInput, errors.StoreUnreadable, OSError) as problem:
            came.append(problem)
            continue
        came.append(adopted)
        if end.entries:
            ends[len(came) - 1] = end
    await settle()
    return came


async def _adopt(
    store: Store, reader: TranscriptReader, ref: SessionRef, host: str, protocol: str | None
) -> tuple[TranscriptImport, Commit]:
    """What comes of one, and the commit that is left to do."""
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
    # The token is in the first commit: after a crash the part that is here is found by it, and completed.
    first = Commit(session, [created, token])
    count, end = await put_replayed(store, first, reader.events(ref), border(ref))
    return TranscriptImport(session, True, count), end


async def replay(
    store: Store, task: Task, known: KnownEvents, events: Iterable[NewEvent], ref: SessionRef
) -> int:
    """Put what the log of a task's session lacks of its past behind what it has, and mark the border.

    Events are marked as replayed, so that nothing follows from them. `known` is what the log has, and
    `events` what it lacks: again, or after a crash between, that is only what is still missing.
    """
    first = Commit(task.session, (), task.id, task.generation)
    count, end = await put_replayed(store, first, events, border(ref), known.unmarked)
    if end.entries:
        await store.commit(end)
    return count


async def _replay(
    store: Store, first: Commit, reader: TranscriptReader, ref: SessionRef
) -> tuple[int, Commit]:
    known = await past_of(store, first.session, reader)
    missing = known.missing(reader.events(ref))
    return await put_replayed(store, first, missing, border(ref), known.unmarked)


async def put_replayed(
    store: Store, first: Commit, events: Iterable[NewEvent], end: NewEvent, unmarked: bool = False
) -> tuple[int, Commit]:
    """Add events behind what the first commit has: how many, and the last commit, which is left to do.

    `end` marks where they end; `unmarked`: it is needed even if there are none.
    """
    entries, count = list(first.entries), 0
    for event in events:
        entries.append(replace(event, replayed=True))
        count += 1
        if len(entries) >= BATCH:
            await store.commit(replace(first, entries=entries))
            entries = []
    if count or unmarked:
        entries.append(end)
    return count, replace(first, entries=entries)


def border(ref: SessionRef) -> NewEvent:
    """The notice behind what was replayed."""
    text = f"Replayed from session {ref.native_id}"
    body = {"text": text, "code": REPLAY_MARKER, "native_id": ref.native_id, "path": ref.path}
    return NewEvent("notice", body, replayed=True)


async def past_of(store: Store, session: str, reader: TranscriptReader | None = None) -> KnownEvents:
    """What the log of a session has, to be met by what its agent's store has."""
    known = KnownEvents(reader.wording if reader is not None else None)
    after = 0
    while page := await store.events(session, after=after):
        after = page[-1].seq
        await asyncio.to_thread(_add_all, known, page)
    return known


def _add_all(known: KnownEvents, events: Sequence[Event]) -> None:
    for event in events:
        known.add(event)
