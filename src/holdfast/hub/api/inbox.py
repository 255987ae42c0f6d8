"""The inbox over HTTP: what needs a person, what runs or waits, and what has ended."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgspec
from litestar import get
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse

from holdfast.hub.api.responses import TheHub, fails, raw, told
from holdfast.hub.api.tasks import OpenPermission, open_permission
from holdfast.model.session import Worktree
from holdfast.model.task import Delivery, Status, Task, WaitingFor
from holdfast.store.store import Store

LISTED = 200  # tasks of one status
TEXT = 400  # characters of a prompt, an answer or a reason

OPEN_STATUSES: tuple[Status, ...] = ("running", "unreachable", "queued", "waiting")
FAILED_STATUSES: tuple[Status, ...] = ("interrupted", "failed")
FINISHED_STATUSES: tuple[Status, ...] = ("succeeded", "cancelled")

Since = Annotated[
    str | None,
    QueryParameter(
        pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$",
        description="List what has finished after this time; without it, nothing that finished.",
    ),
]


class InboxTask(msgspec.Struct, frozen=True):
    """A task as the inbox lists it; long texts are cut."""

    id: str
    session: str
    status: Status
    prompt: str
    queued_at: str
    started_at: str | None
    ended_at: str | None
    delivery: Delivery
    reason: str | None
    answer: str | None
    usage: dict[str, Any]
    waiting_for: WaitingFor | None
    not_before: str | None
    retry_of: str | None


class InboxSession(msgspec.Struct, frozen=True):
    """The session of such a task."""

    id: str
    agent: str
    state: str
    title: str | None
    key: str | None
    cwd: str | None
    worktree: Worktree | None
    updated_at: str


class Inbox(msgspec.Struct, frozen=True):
    """Everything at one moment; `more` names the lists that leave tasks out."""

    permissions: list[OpenPermission]
    open: list[InboxTask]  # not ended, in the order they were queued
    failed: list[InboxTask]  # last tasks of live sessions that died or failed, the latest first
    finished: list[InboxTask]  # last tasks of live sessions that ended since then otherwise
    sessions: dict[str, InboxSession]
    more: list[str]


@get(
    "/api/inbox",
    operation_id="inbox",
    summary="What needs a person, what runs or waits, and what has ended",
    responses={**told(200, Inbox), **fails()},
)
async def inbox(hub: TheHub, since: Since = None) -> ASGIResponse:
    """Read as one value, so that a page shows one moment."""
    name, mark = f"inbox {since}", await hub.store.mark()
    body = None if mark is None else hub.lists.get(name, mark)
    if body is None:
        body = hub.lists.keep(name, msgspec.json.encode(await _read(hub.store, since)), mark)
    return raw(body)


async def _read(store: Store, since: str | None) -> Inbox:
    pending = await store.asked()
    lists = {
        "open": await _open_tasks(store),
        "failed": await _ended_tasks(store, FAILED_STATUSES, ""),
        "finished": await _ended_tasks(store, FINISHED_STATUSES, since)
        if since is not None
        else InboxList([]),
    }
    names = dict.fromkeys(task.session for each in lists.values() for task in each.tasks)
    return Inbox(
        permissions=[open_permission(found) for found in pending],
        open=[_listed(task) for task in lists["open"].tasks],
        failed=[_listed(task) for task in lists["failed"].tasks],
        finished=[_listed(task) for task in lists["finished"].tasks],
        sessions={name: await _session(store, name) for name in names},
        more=[name for name, each in lists.items() if each.more],
    )


class InboxList(NamedTuple):
    """Tasks of one list of the inbox."""

    tasks: list[Task]
    more: bool = False  # whether there are more than these


async def _open_tasks(store: Store) -> InboxList:
    """The tasks that have not ended, in the order they were queued."""
    pages = [await store.latest_tasks(status=status, limit=LISTED + 1) for status in OPEN_STATUSES]
    tasks = [task for page in pages for task in page[:LISTED]]
    return InboxList(sorted(tasks, key=lambda task: task.queued_at), _is_cut(pages))


async def _ended_tasks(store: Store, statuses: tuple[Status, ...], since: str) -> InboxList:
    """The last tasks of live sessions that ended so after a time, the latest first."""
    pages = [await store.last_tasks(status, LISTED + 1) for status in statuses]
    tasks = [
        task
        for page in pages
        for task in page[:LISTED]
        if (task.ended_at or "") > since and (task.status != "cancelled" or task.started_at is not None)
    ]
    tasks.sort(key=lambda task: task.ended_at or task.queued_at, reverse=True)
    return InboxList(tasks, _is_cut(pages))


def _is_cut(pages: list[list[Task]]) -> bool:
    return any(len(page) > LISTED for page in pages)


async def _session(store: Store, name: str) -> InboxSession:
    found = await store.session(name)
    return InboxSession(
        id=found.id,
        agent=found.agent,
        state=found.state,
        title=found.title,
        key=found.key,
        cwd=found.cwd,
        worktree=found.worktree,
        updated_at=found.updated_at,
    )


def _listed(task: Task) -> InboxTask:
    outcome = task.outcome or {}
    return InboxTask(
        id=task.id,
        session=task.session,
        status=task.status,
        prompt=task.prompt[:TEXT],
        queued_at=task.queued_at,
        started_at=task.started_at,
        ended_at=task.ended_at,
        delivery=task.delivery,
        reason=_cut(task.reason),
        answer=_cut(outcome.get("answer")),
        usage=outcome.get("usage") or {},
        waiting_for=task.waiting_for,
        not_before=task.not_before,
        retry_of=task.retry_of,
    )


def _cut(text: Any) -> str | None:
    return text[:TEXT] if isinstance(text, str) else None


ROUTES = [inbox]
