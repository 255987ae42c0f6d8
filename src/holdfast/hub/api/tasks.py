"""Tasks over HTTP: listed, shown, stopped, and answered."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

import msgspec
from litestar import get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from holdfast.agents.driver import Decision, Policy
from holdfast.errors import BadInput
from holdfast.hub.api.responses import By, TheHub, fails
from holdfast.model.task import Status, Task
from holdfast.runner import control
from holdfast.runner import dispatch as dispatching
from holdfast.runner import redispatch as redispatching
from holdfast.runner.requests import PromptRequest, RedispatchRequest, ResumeMode
from holdfast.settings import Leftovers
from holdfast.store import types


class TaskList(msgspec.Struct, frozen=True):
    """Tasks, the one queued last first."""

    tasks: list[Task]


class CancelRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to stop a task; `now`: without waiting for the agent to stop by itself."""

    now: bool = False


class PermissionAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer to what an agent asks for; to all that it asks where no call is named."""

    answer: Decision
    call: str | None = None


class AnsweredPermissions(msgspec.Struct, frozen=True):
    """The answers as they were recorded."""

    answered: list[dict[str, Any]]


class OpenPermission(msgspec.Struct, frozen=True):
    """A permission that an agent waits for."""

    session: str
    task: str
    at: str
    call: str
    ask: str  # what to name as `call` in an answer to this one alone
    name: str | None
    input: Any


class OpenPermissions(msgspec.Struct, frozen=True):
    """What waits for an answer, by the order of tasks."""

    permissions: list[OpenPermission]


@get("/api/permissions", operation_id="listPermissions", summary="What agents ask for", responses=fails())
async def list_permissions(hub: TheHub) -> OpenPermissions:
    """The permissions of tasks that run, as long as nobody has answered them."""
    return OpenPermissions([open_permission(found) for found in await hub.store.asked()])


def open_permission(found: types.PendingPermission) -> OpenPermission:
    """A pending permission as the API shows it."""
    call, name = str(found.body["call"]), found.body.get("name")
    return OpenPermission(
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
) -> TaskList:
    """Those of one session, or of all; with one status, or any; of the day they ended or were queued on."""
    of = await hub.resolve(session) if session else ""
    return TaskList(await hub.store.latest_tasks(session=of, status=status or "", day=day or "", limit=limit))


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
async def cancel_task(
    hub: TheHub, by: By, task: FromPath[str], data: JSONBody[CancelRequest | None] = None
) -> Task:
    """The task as it is now: one that waited is cancelled, one that runs was asked to stop."""
    return await control.cancel_task(hub.store, task, by, twice=data is not None and data.now)


@post(
    "/api/tasks/{task:str}/permission",
    operation_id="answerTask",
    summary="Allow or deny what an agent asks for",
    status_code=200,
    responses=fails(404, 409, 413),
)
async def answer_task(
    hub: TheHub, by: By, task: FromPath[str], data: JSONBody[PermissionAnswer]
) -> AnsweredPermissions:
    """The recorded answers; the worker of the task passes them on."""
    return AnsweredPermissions(
        await control.answer_permissions(hub.store, task, data.answer, by, call=data.call)
    )


ROUTES = [list_permissions, list_tasks, show_task, cancel_task, answer_task]


# --- Prompts over HTTP: for a new session, for the one of a key, for one that is gone on with, and once mor

Seconds = Annotated[float, msgspec.Meta(gt=0, le=10**9)]


class DispatchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do, and where."""

    prompt: Annotated[str, msgspec.Meta(min_length=1)]
    agent: str | None = None
    key: str | None = None
    session: str | None = None  # go on in this one, where that is safe
    cwd: str | None = None  # an absolute path
    here: str | None = None  # where the person is: for a new session without a cwd; else the hub's own folder
    task: str | None = None  # the id its task is to have: the same sent twice is one task
    worktree: bool = False
    fork: bool = False
    queue: bool = False
    brief: bool = True
    permissions: Policy | None = None
    time_limit_s: Seconds | None = None
    leftovers: Leftovers | None = None  # what to do about leftover processes; else as configured


class ResumeRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prompt, and how to continue the session."""

    prompt: Annotated[str, msgspec.Meta(min_length=1)]
    # `verdict`: as the verdict says when its turn comes; where a resume is not safe, in a fresh session
    how: ResumeMode | Literal["verdict"] = "resume"
    task: str | None = None  # as for a dispatch
    queue: bool = False
    brief: bool = True
    permissions: Policy | None = None
    time_limit_s: Seconds | None = None
    leftovers: Leftovers | None = None  # what to do about leftover processes; else as configured


class QueuedPrompt(msgspec.Struct, frozen=True):
    """What was queued, and in which session."""

    task: str
    session: str


class RedispatchBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which tasks to run again: those named, those of some keys, or all interrupted ones.

    `tasks` holds ids of tasks, or sessions or keys. `failed`: also tasks that failed. `wait`: also queue
    those that must wait.
    """

    keys: list[str] | None = None
    tasks: list[str] | None = None
    failed: bool = False
    wait: bool = False


class RedispatchedTask(msgspec.Struct, frozen=True):
    """An interrupted task and the one that is its retry."""

    of: str
    task: str
    session: str
    waits_for: str | None = None  # what it has to wait for


class RedispatchResult(msgspec.Struct, frozen=True):
    """What is run once more, and what is not and why."""

    redispatched: list[RedispatchedTask]
    skipped: list[dict[str, Any]]


@post(
    "/api/dispatch",
    operation_id="dispatch",
    summary="Run a prompt: in the session of its key where that is safe, else in a fresh one",
    responses=fails(404, 409, 413),
)
async def dispatch(hub: TheHub, by: By, data: JSONBody[DispatchRequest]) -> QueuedPrompt:
    """The task that was queued."""
    for name, path in (("cwd", data.cwd), ("here", data.here)):
        if path is not None and not os.path.isabs(path):
            raise BadInput(f"{name} must be an absolute path, not {path!r}")
    wish = PromptRequest(**msgspec.structs.asdict(data))
    return _queued(await dispatching.dispatch(hub.context, wish, by=by))


@post(
    "/api/sessions/{session:str}/resume",
    operation_id="resumeSession",
    summary="Resume a session if its verdict allows it or the caller overrides it",
    responses=fails(404, 409, 413),
)
async def resume_session(
    hub: TheHub, by: By, session: FromPath[str], data: JSONBody[ResumeRequest]
) -> QueuedPrompt:
    """The task that was queued; it may be in a new session."""
    fields = msgspec.structs.asdict(data)
    if data.how == "verdict":
        fields |= {"how": None, "may_move": True}
    wish = PromptRequest(session=await hub.resolve(session), **fields)
    return _queued(await dispatching.dispatch(hub.context, wish, by=by))


@post(
    "/api/redispatch",
    operation_id="redispatch",
    summary="Run interrupted or failed tasks again: each once, each by its session's verdict",
    status_code=200,
    responses=fails(404, 409, 413),
)
async def redispatch(hub: TheHub, by: By, data: JSONBody[RedispatchBody | None] = None) -> RedispatchResult:
    """What became of each."""
    body = RedispatchBody() if data is None else data
    requests = [
        RedispatchRequest(key=key, wait=body.wait, failed=body.failed)
        for key in ([None] if body.keys is None else dict.fromkeys(body.keys))
    ]
    if body.tasks is not None:
        requests = [RedispatchRequest(names=tuple(body.tasks), wait=body.wait)] if body.tasks else []
    came = RedispatchResult([], [])
    for request in requests:
        made = await redispatching.redispatch(hub.context, request, by)
        came.redispatched.extend(msgspec.convert(made["redispatched"], list[RedispatchedTask]))
        came.skipped.extend(made["skipped"])
    return came


def _queued(task: Task) -> QueuedPrompt:
    return QueuedPrompt(task.id, task.session)


DISPATCHES_ROUTES = [dispatch, resume_session, redispatch]
