"""Dispatches interrupted tasks again: each at most once, each by its verdict."""

from __future__ import annotations

from typing import Any

from holdfast import errors
from holdfast.model.session import Session
from holdfast.model.task import Task
from holdfast.resume import verdict
from holdfast.resume.rules import rule_of
from holdfast.runner import sessions
from holdfast.runner.context import Context
from holdfast.runner.dispatch import PromptRequest, RedispatchRequest, dispatch


async def redispatch(context: Context, request: RedispatchRequest, by: str) -> dict[str, Any]:
    """Queue each interrupted task that can still be run again; what was queued, what was not and why."""
    queued, skipped = [], []
    for task in await context.store.redispatchable_tasks(request.key or ""):
        session = await context.store.session(task.session)
        try:
            waits_for = await _check(context, session, request)
            made = await dispatch(context, _prompt_request(task, session, request), by=by, retry_of=task.id)
        except errors.HoldfastError as problem:
            skipped.append({"task": task.id, "session": session.id, **problem.as_json()})
            continue
        queued.append({"of": task.id, "task": made.id, "session": made.session, "waits_for": waits_for})
    return {"redispatched": queued, "skipped": skipped}


async def _check(context: Context, session: Session, request: RedispatchRequest) -> str | None:
    """What the retry has to wait for, if anything; refused unless the caller asks to wait."""
    if not context.node.owns(session.host):
        raise errors.IllegalChange(f"session {session.id} is on node {session.host}")
    found = verdict.judge(await sessions.facts(context, session))
    if found.action != "wait":
        return None
    if not request.wait:
        hint = "with --wait it runs when the session becomes free"
        raise errors.SessionRunning(verdict.reasons_text(found), hint=hint, session=session.id)
    return "; ".join(r.text for r in found.reasons if rule_of(r.code).action == "wait")


def _prompt_request(task: Task, session: Session, request: RedispatchRequest) -> PromptRequest:
    """The same prompt for the same thread; a session without a key is named by its id."""
    return PromptRequest(
        prompt=task.prompt,
        key=session.key,
        session=session.id if session.key is None else None,
        may_move=True,
        queue=request.wait,
        permissions=task.options.get("permissions"),
        time_limit_s=task.options.get("time_limit_s"),
    )
