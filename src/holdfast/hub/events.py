"""A session's events over HTTP, a page at a time."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import get
from litestar.params import FromPath, QueryParameter
from litestar.response.base import ASGIResponse

from holdfast.hub.answers import fails, raw, told
from holdfast.hub.given import TheHub
from holdfast.model.event import Event
from holdfast.store import reads

After = Annotated[int, QueryParameter(ge=0, le=10**15, description="The seq to go on from.")]
Limit = Annotated[int, QueryParameter(ge=1, le=reads.PAGE)]


class Events(msgspec.Struct, frozen=True):
    """Records in order, and the `after` of the next page."""

    events: list[Event]
    next: int | None


@get(
    "/api/sessions/{session:str}/events",
    operation_id="listEvents",
    summary="A session's events after a seq, in order",
    responses={**told(200, Events), **fails(404, 409)},
)
async def list_events(
    hub: TheHub, session: FromPath[str], after: After = 0, limit: Limit = reads.PAGE
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


ROUTES = [list_events]
