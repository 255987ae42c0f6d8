"""Interrupted tasks once more: each at most once, each by its verdict."""

from __future__ import annotations

from typing import Any

from holdfast import errors
from holdfast.model.session import Session
from holdfast.model.task import Task
from holdfast.resume import verdict
from holdfast.resume.record import touched
from holdfast.work import judging
from holdfast.work.context import Context
from holdfast.work.dispatch import dispatch
from holdfast.work.wish import Again, Wish


async def again(context: Context, wish: Again, by: str) -> dict[str, Any]:
    """Put them back in the queue; what was queued, and what was not and why."""
    queued, skipped = [], []
    for task in await context.store.tasks(status="interrupted"):
        session = await context.store.session(task.session)
        if wish.key is not None and session.key != wish.key:
            continue
        try:
            await _check(context, task, session)
            made = await dispatch(context, _wish(task, session), by=by, retry_of=task.id)
        except errors.HoldfastError as problem:
            skipped.append({"task": task.id, "session": session.id, **problem.as_json()})
            continue
        queued.append({"of": task.id, "task": made.id, "session": made.session})
    return {"redispatched": queued, "skipped": skipped}


async def _check(context: Context, task: Task, session: Session) -> None:
    """Refuse one whose thread has gone on without it."""
    if session.state != "live":
        raise errors.IllegalChange(f"session {session.id} is {session.state}; its thread has gone on")
    later = [other.id for other in await context.store.tasks(session=session.id) if touched(other)]
    if later[-1:] != [task.id]:
        raise errors.IllegalChange(f"session {session.id} has gone on with task {later[-1]}")
    found = verdict.judge(await judging.facts(context, session))
    if found.action == "wait":
        raise errors.SessionRunning(verdict.told(found), session=session.id)
    if session.host not in (None, context.owner.host):
        raise errors.IllegalChange(f"session {session.id} is on {session.host}")


def _wish(task: Task, session: Session) -> Wish:
    """The same prompt for the same thread; a session without a key is named by its id, and begun anew."""
    keyed = session.key is not None
    return Wish(
        prompt=task.prompt,
        key=session.key,
        session=None if keyed else session.id,
        how=None if keyed else "fresh",
        permissions=task.options.get("permissions"),
        time_limit_s=task.options.get("time_limit_s"),
    )
