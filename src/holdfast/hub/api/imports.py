"""Adopting sessions over HTTP."""

from __future__ import annotations

import msgspec
from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from holdfast.hub.api.responses import fails
from holdfast.hub.imports import ImportableAgent, ImportProgress, ImportService


class ImportableList(msgspec.Struct, frozen=True):
    """The agents that have sessions which are not here yet."""

    agents: list[ImportableAgent]


class ImportRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent."""

    agent: str


class ImportStatus(msgspec.Struct, frozen=True):
    """An import that has begun."""

    job: str


@get(
    "/api/adoptable",
    operation_id="listAdoptable",
    summary="Sessions of agents' own stores that are not here yet",
    responses=fails(),
)
async def list_adoptable(adopting: NamedDependency[ImportService]) -> ImportableList:
    """How many each agent has; the look may be a minute old."""
    return ImportableList(await adopting.adoptable())


@post(
    "/api/adopt",
    operation_id="adopt",
    summary="Adopt an agent's sessions in the background",
    status_code=202,
    responses=fails(404, 409, 413),
)
async def adopt(adopting: NamedDependency[ImportService], data: JSONBody[ImportRequest]) -> ImportStatus:
    """What was begun; none is taken twice."""
    return ImportStatus((await adopting.start(data.agent)).agent)


@get(
    "/api/adopt",
    operation_id="showAdoption",
    summary="How far the import has come",
    responses=fails(),
)
async def show_adoption(adopting: NamedDependency[ImportService]) -> ImportProgress:
    """The one that runs, or the last one; an empty one where there was none."""
    return adopting.progress or ImportProgress("", 0, 0, [], False)


ROUTES = [list_adoptable, adopt, show_adoption]
