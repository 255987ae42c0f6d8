"""Live streams of events: one session's, and all sessions'."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.params import FromPath, HeaderParameter, QueryParameter
from litestar.types import ASGIApp

from holdfast.hub.api.responses import STREAM, TheHub, fails, told
from holdfast.hub.state import HubState
from holdfast.hub.streaming.stream import Backlog, FeedBacklog, OneSessionBacklog, Stream

ABOUT = (
    "Server-sent events. `event`: a record, whose id is the cursor to come back with. `partial`: what an "
    "agent has said so far of a block that is not whole; never stored. `gap`: what follows does not follow "
    "on what came before, but begins at the start. `closing`: the hub ends the stream, and why."
)

LastId = Annotated[
    str | None, HeaderParameter(name="Last-Event-ID", description="The id that was seen last.")
]
After = Annotated[
    str | None,
    QueryParameter(name="after", description="The same in the address; Last-Event-ID goes before it."),
]


@get(
    "/api/sessions/{session:str}/stream",
    operation_id="followSession",
    summary="A session's events, from the start or a cursor on, without end",
    description="`after` may also be the plain seq of a record.",
    media_type=STREAM,
    responses={**told(200, str, STREAM, ABOUT), **fails(404, 409)},
)
async def follow_session(
    hub: TheHub, session: FromPath[str], last_id: LastId = None, after: After = None
) -> ASGIApp:
    """The stream of one session."""
    return await _stream(hub, OneSessionBacklog(hub, await hub.resolve(session)), last_id, after)


@get(
    "/api/stream",
    operation_id="followAll",
    summary="The events of all sessions, from now or a cursor on, without end",
    media_type=STREAM,
    responses={**told(200, str, STREAM, ABOUT), **fails()},
)
async def follow_all(hub: TheHub, last_id: LastId = None, after: After = None) -> ASGIApp:
    """The stream of all sessions."""
    return await _stream(hub, FeedBacklog(hub), last_id, after)


async def _stream(hub: HubState, past: Backlog, last_id: str | None, after: str | None) -> ASGIApp:
    problem = await past.begin(last_id or after)
    return Stream(hub, past, problem)


ROUTES = [follow_session, follow_all]
