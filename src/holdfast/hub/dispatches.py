"""Prompts over HTTP: for a new session, for the one of a key, for one that is gone on with, and once more."""

from __future__ import annotations

import os
from typing import Annotated, Any

import msgspec
from litestar import post
from litestar.params import FromPath, JSONBody

from holdfast.drive.driver import Policy
from holdfast.errors import BadInput
from holdfast.hub.answers import fails
from holdfast.hub.given import By, TheHub
from holdfast.model.task import Task
from holdfast.work import dispatch as dispatching
from holdfast.work import redispatching
from holdfast.work.wish import Again, How, Wish

Seconds = Annotated[float, msgspec.Meta(gt=0, le=10**9)]


class Prompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class GoOn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do next, and how to go on with the session."""

    prompt: Annotated[str, msgspec.Meta(min_length=1)]
    how: How = "resume"
    task: str | None = None  # as for a dispatch
    queue: bool = False
    brief: bool = True
    permissions: Policy | None = None
    time_limit_s: Seconds | None = None


class Queued(msgspec.Struct, frozen=True):
    """What was queued, and in which session."""

    task: str
    session: str


class Once(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Only those of these threads; all where none is named."""

    keys: list[str] | None = None


class Moved(msgspec.Struct, frozen=True):
    """An interrupted task and the one that is its retry."""

    of: str
    task: str
    session: str


class Redispatched(msgspec.Struct, frozen=True):
    """What is run once more, and what is not and why."""

    redispatched: list[Moved]
    skipped: list[dict[str, Any]]


@post(
    "/api/dispatch",
    operation_id="dispatch",
    summary="Run a prompt: in the session of its key where that is safe, else in a fresh one",
    responses=fails(404, 409, 413),
)
async def dispatch(hub: TheHub, by: By, data: JSONBody[Prompt]) -> Queued:
    """The task that was queued."""
    for name, path in (("cwd", data.cwd), ("here", data.here)):
        if path is not None and not os.path.isabs(path):
            raise BadInput(f"{name} must be an absolute path, not {path!r}")
    wish = Wish(**msgspec.structs.asdict(data))
    return _queued(await dispatching.dispatch(hub.context, wish, by=by))


@post(
    "/api/sessions/{session:str}/resume",
    operation_id="resumeSession",
    summary="Go on with a session, if its verdict allows that or somebody says so",
    responses=fails(404, 409, 413),
)
async def resume_session(hub: TheHub, by: By, session: FromPath[str], data: JSONBody[GoOn]) -> Queued:
    """The task that was queued; it may be in a new session."""
    wish = Wish(session=await hub.resolve(session), **msgspec.structs.asdict(data))
    return _queued(await dispatching.dispatch(hub.context, wish, by=by))


@post(
    "/api/redispatch",
    operation_id="redispatch",
    summary="Run interrupted tasks once more: each once, each by its session's verdict",
    status_code=200,
    responses=fails(404, 409, 413),
)
async def redispatch(hub: TheHub, by: By, data: JSONBody[Once | None] = None) -> Redispatched:
    """What became of each."""
    keys = None if data is None else data.keys
    came = Redispatched([], [])
    for key in [None] if keys is None else dict.fromkeys(keys):
        made = await redispatching.again(hub.context, Again(key=key), by)
        came.redispatched.extend(msgspec.convert(made["redispatched"], list[Moved]))
        came.skipped.extend(made["skipped"])
    return came


def _queued(task: Task) -> Queued:
    return Queued(task.id, task.session)


ROUTES = [dispatch, resume_session, redispatch]
