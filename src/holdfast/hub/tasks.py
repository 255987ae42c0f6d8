"""Tasks over HTTP: listed, shown, stopped, and answered."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from holdfast.drive.driver import Decision
from holdfast.hub.answers import fails
from holdfast.hub.given import By, TheHub
from holdfast.model.task import Status, Task
from holdfast.store import contract
from holdfast.work import steering


class Tasks(msgspec.Struct, frozen=True):
    """Tasks, the one queued last first."""

    tasks: list[Task]


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to stop a task; `now`: without waiting for the agent to stop by itself."""

    now: bool = False


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer to what an agent asks for; to all that it asks where no call is named."""

    answer: Decision
    call: str | None = None


class Answered(msgspec.Struct, frozen=True):
    """The answers as they were recorded."""

    answered: list[dict[str, Any]]


class Asked(msgspec.Struct, frozen=True):
    """A permission that an agent waits for."""

    session: str
    task: str
    at: str
    call: str
    ask: str  # what to name as `call` in an answer to this one alone
    name: str | None
    input: Any


class Permissions(msgspec.Struct, frozen=True):
    """What waits for an answer, by the order of tasks."""

    permissions: list[Asked]


@get("/api/permissions", operation_id="listPermissions", summary="What agents ask for", responses=fails())
async def list_permissions(hub: TheHub) -> Permissions:
    """The permissions of tasks that run, as long as nobody has answered them."""
    return Permissions([_asked(found) for found in await hub.store.asked()])


def _asked(found: contract.Asked) -> Asked:
    call, name = str(found.body["call"]), found.body.get("name")
    return Asked(
        session=found.session,
        task=found.task,
        at=found.at,
        call=call,
        ask=str(found.body.get("ask", call)),
        name=None if name is None else str(name),
        input=found.body.get("input"),
    )


@get(
    "/api/tasks",
    operation_id="listTasks",
    summary="Tasks, the one queued last first",
    responses=fails(404, 409),
)
async def list_tasks(
    hub: TheHub,
    session: FromQuery[str | None] = None,
    status: FromQuery[Status | None] = None,
    day: Annotated[str | None, QueryParameter(pattern=r"^\d{4}-\d{2}-\d{2}$")] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 100,
) -> Tasks:
    """Those of one session, or of all; with one status, or any; of the day they ended or were queued on."""
    of = await hub.resolve(session) if session else ""
    return Tasks(await hub.store.latest_tasks(session=of, status=status or "", day=day or "", limit=limit))


@get("/api/tasks/{task:str}", operation_id="showTask", summary="One task", responses=fails(404, 409))
async def show_task(hub: TheHub, task: FromPath[str]) -> Task:
    """All about it but its events."""
    return await hub.store.task(await hub.store.resolve_task(task))


@post(
    "/api/tasks/{task:str}/cancel",
    operation_id="cancelTask",
    summary="Stop a task: the agent is asked first, then all it started is ended",
    status_code=200,
    responses=fails(404, 409, 413),
)
async def cancel_task(hub: TheHub, by: By, task: FromPath[str], data: JSONBody[Stop | None] = None) -> Task:
    """The task as it is now: one that waited is cancelled, one that runs was asked to stop."""
    return await steering.cancel(hub.store, task, by, twice=data is not None and data.now)


@post(
    "/api/tasks/{task:str}/permission",
    operation_id="answerTask",
    summary="Allow or deny what an agent asks for",
    status_code=200,
    responses=fails(404, 409, 413),
)
async def answer_task(hub: TheHub, by: By, task: FromPath[str], data: JSONBody[Answer]) -> Answered:
    """The answers as they were recorded; whoever drives the task passes them on."""
    return Answered(await steering.answer(hub.store, task, data.answer, by, call=data.call))


ROUTES = [list_permissions, list_tasks, show_task, cancel_task, answer_task]
