"""Sessions over HTTP: listed, shown, patched, put away, deleted and brought back."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from litestar.response.base import ASGIResponse

from holdfast.errors import BadInput, IllegalChange
from holdfast.hub.api.responses import By, TheHub, fails, raw, told
from holdfast.model.changes import Change, Describe, PatchMetadata
from holdfast.model.commit import Commit
from holdfast.model.event import Event
from holdfast.model.session import Header, Session
from holdfast.model.task import Status
from holdfast.model.token import Token
from holdfast.resume.environment import tasks_of
from holdfast.resume.facts import leftovers
from holdfast.runner import sessions as removing
from holdfast.runner import sessions as trusting
from holdfast.runner.processes import end_leftovers
from holdfast.store import reads
from holdfast.store.reads import Filters

BY_HAND = "by hand"

Which = Literal["present", "live", "archived", "deleted", "all"]
Limit = Annotated[int, QueryParameter(ge=1, le=500)]
Reason = Annotated[str, msgspec.Meta(max_length=4000)]


class SessionListing(msgspec.Struct, frozen=True):
    """A page of a list, and the cursor of the next."""

    sessions: list[Header]
    next: str | None


class SessionDetails(msgspec.Struct, frozen=True):
    """A session and the lineage of its tokens."""

    session: Session
    tokens: list[Token]


class SessionPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON merge patch of the metadata on the version that was seen, a new title, or both."""

    version: int | None = None
    metadata: dict[str, Any] | None = None
    title: str | msgspec.UnsetType | None = msgspec.UNSET


class ReasonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reason that is kept with the change."""

    reason: Reason = BY_HAND


class RemovedSession(Session, frozen=True):
    """A session in the trash."""

    worktree_stays: str | None = None  # why its worktree was not taken away, if it was not


class TrustedSession(msgspec.Struct, frozen=True):
    """Who trusts a session after which task, and why."""

    session: str
    task: str
    by: str
    reason: str


def _changes(path: str, operation: str, summary: str, *more: int) -> post:
    """What a person does to one session; `more` are problems that not all of these have."""
    return post(
        f"/api/sessions/{{session:str}}/{path}",
        operation_id=operation,
        summary=summary,
        status_code=200,
        responses=fails(404, 409, *more),
    )


@get(
    "/api/sessions",
    operation_id="listSessions",
    summary="Sessions, the latest first",
    responses={**told(200, SessionListing), **fails(404)},
)
async def list_sessions(
    hub: TheHub,
    which: Annotated[Which, QueryParameter(name="state")] = "present",
    agent: FromQuery[str] = "",
    key: FromQuery[str] = "",
    text: FromQuery[str] = "",
    status: FromQuery[Status | None] = None,
    empty: FromQuery[bool] = False,
    before: FromQuery[str | None] = None,
    limit: Limit = 50,
) -> ASGIResponse:
    """A page of headers; `before` is the `next` of the page before, `status` that of the last task."""
    filters: Filters = {
        "state": which,
        "agent": agent,
        "key": key,
        "text": text,
        "status": status or "",
        "empty": empty,
    }
    name, mark = repr((filters, before, limit)), await hub.store.mark()
    body = None if mark is None else hub.lists.get(name, mark)  # whoever polls, mostly finds nothing new
    if body is None:
        page = SessionListing(*await hub.store.headers(before=before, limit=limit, **filters))
        body = hub.lists.keep(name, msgspec.json.encode(page), mark)
    return raw(body)


@get(
    "/api/sessions/{session:str}",
    operation_id="showSession",
    summary="A session's header with its metadata, and its tokens",
    responses=fails(404, 409),
)
async def show_session(hub: TheHub, session: FromPath[str]) -> SessionDetails:
    """All about one session but its events."""
    found = await hub.resolve(session)
    return SessionDetails(await hub.store.session(found), await hub.store.tokens(found))


@patch(
    "/api/sessions/{session:str}",
    operation_id="patchSession",
    summary="Merge a JSON merge patch into the metadata, or set the title",
    responses=fails(404, 409, 413),
)
async def patch_session(hub: TheHub, session: FromPath[str], data: JSONBody[SessionPatch]) -> Session:
    """The session as it is then; `version_mismatch` carries the current version and metadata."""
    found = await hub.resolve(session)
    changes: list[Change] = []
    if data.metadata is not None:
        if data.version is None:
            raise BadInput("metadata is patched on the version that was seen: give version")
        changes.append(PatchMetadata(patch=data.metadata, version=data.version))
    if data.title is not msgspec.UNSET:
        changes.append(Describe(title=data.title))
    if not changes:
        raise BadInput("nothing to change: give metadata, title or both")
    await hub.store.commit(Commit(found, changes))
    return await hub.store.session(found)


@_changes(
    "archive", "archiveSession", "Put a session away; its key is free again, its tokens and prompts stay", 413
)
async def archive_session(
    hub: TheHub, by: By, session: FromPath[str], data: JSONBody[ReasonBody | None] = None
) -> Session:
    """The archived session."""
    found = await hub.resolve(session)
    return await hub.store.archive(found, by, (data or ReasonBody()).reason)


@_changes("unarchive", "unarchiveSession", "Take a session out of the archive")
async def unarchive_session(hub: TheHub, by: By, session: FromPath[str]) -> Session:
    """The live session."""
    return await hub.store.unarchive(await hub.resolve(session), by)


@delete(
    "/api/sessions/{session:str}",
    operation_id="deleteSession",
    summary="Move a session into the trash, and its worktree away if nothing could be lost with it",
    status_code=200,
    responses=fails(404, 409),
)
async def delete_session(
    hub: TheHub, by: By, session: FromPath[str], reason: FromQuery[Reason] = BY_HAND
) -> Response[RemovedSession]:
    """The deleted session."""
    found = await hub.resolve(session)
    deleted, stays = await removing.delete(hub.store, found, by, reason)
    headers = {} if stays is None else {"x-holdfast-notice": quote(stays)}
    return Response(RemovedSession(**msgspec.structs.asdict(deleted), worktree_stays=stays), headers=headers)


@_changes("restore", "restoreSession", "Bring a session back from the trash")
async def restore_session(hub: TheHub, by: By, session: FromPath[str]) -> Session:
    """The session as it was."""
    return await hub.store.restore(await hub.resolve(session), by)


@_changes("trust", "trustSession", "Say that a session is sound whose last task was cancelled or failed", 413)
async def trust_session(
    hub: TheHub, by: By, session: FromPath[str], data: JSONBody[ReasonBody]
) -> TrustedSession:
    """What was recorded; that task no longer counts."""
    found = await hub.resolve(session)
    last = await trusting.trust(hub.store, found, by, data.reason)
    return TrustedSession(found, last.id, by, data.reason)


class LeftoverProcess(msgspec.Struct, frozen=True):
    """A process that a dead run left behind."""

    pid: int
    command: str


class StoppedLeftovers(msgspec.Struct, frozen=True):
    """The leftover processes that were ended."""

    ended: list[LeftoverProcess]


@_changes("leftovers/stop", "stopLeftovers", "End the processes that dead runs of a session left behind")
async def stop_leftovers(hub: TheHub, by: By, session: FromPath[str]) -> StoppedLeftovers:
    """What was ended; `illegal_change` if nothing was left running."""
    found = await hub.resolve(session)
    running = await leftovers(hub.store, found)
    ended: list[LeftoverProcess] = []
    for name in await asyncio.to_thread(tasks_of, running):
        with suppress(IllegalChange):  # they have just ended by themselves
            stopped = await end_leftovers(hub.store, await hub.store.task(name), by)
            ended += [LeftoverProcess(process.pid, process.command) for process in stopped]
    if not running:
        raise IllegalChange(f"no leftover process of session {found} is running")
    return StoppedLeftovers(ended)


ROUTES = [
    list_sessions,
    show_session,
    patch_session,
    archive_session,
    unarchive_session,
    delete_session,
    restore_session,
    trust_session,
    stop_leftovers,
]


# --- A session's events over HTTP, a page at a time.

After = Annotated[int, QueryParameter(ge=0, le=10**15, description="The seq to go on from.")]
EventsLimit = Annotated[int, QueryParameter(ge=1, le=reads.PAGE)]


class EventPage(msgspec.Struct, frozen=True):
    """Records in order, and the `after` of the next page."""

    events: list[Event]
    next: int | None


@get(
    "/api/sessions/{session:str}/events",
    operation_id="listEvents",
    summary="A session's events after a seq, in order",
    responses={**told(200, EventPage), **fails(404, 409)},
)
async def list_events(
    hub: TheHub, session: FromPath[str], after: After = 0, limit: EventsLimit = reads.PAGE
) -> ASGIResponse:
    """A page of the log, its bodies as they were stored; long ones make a page shorter than its limit."""
    found = await hub.resolve(session)
    lines = await hub.store.event_lines(found, after=after, limit=limit)
    last = (await hub.store.session(found)).events
    end = after + len(lines)
    following = end if lines and end < last else None
    return raw(f'{{"events":[{",".join(lines)}],"next":{_json(following)}}}'.encode())


def _json(number: int | None) -> str:
    return "null" if number is None else str(number)


EVENTS_ROUTES = [list_events]
