"""Dispatches tasks again: each at most once, each by its verdict."""

from __future__ import annotations

from typing import Any

from holdfast import errors
from holdfast.model.session import Session
from holdfast.model.task import ACTIVE, PENDING, Task
from holdfast.resume import verdict
from holdfast.resume.rules import rule_of
from holdfast.runner import sessions
from holdfast.runner.context import Context
from holdfast.runner.dispatch import dispatch, leftovers_hint, put_away
from holdfast.runner.requests import PromptRequest, RedispatchRequest

INTERRUPTED = ("interrupted",)
NOT_DONE = ("interrupted", "failed")
NAMED = ("interrupted", "failed", "cancelled")


async def redispatch(context: Context, request: RedispatchRequest, by: str) -> dict[str, Any]:
    """Queue each task that can still be run again; what was queued, what was not and why."""
    queued: list[dict[str, Any]] = []
    skipped: list[dict[str, Any]] = []
    tasks = []
    for name in dict.fromkeys(request.names):
        try:
            tasks.append(await _named_task(context, name))
        except errors.HoldfastError as problem:
            skipped.append({"task": name, "session": None, **problem.as_json()})
    if not request.names:
        statuses = NOT_DONE if request.failed else INTERRUPTED
        tasks = await context.store.redispatchable_tasks(request.key or "", statuses=statuses)
    for task in {task.id: task for task in tasks}.values():
        session = await context.store.session(task.session)
        try:
            waits_for = await _check(context, session, request)
            made = await dispatch(context, _prompt_request(task, session, request), by=by, retry_of=task.id)
        except errors.HoldfastError as problem:
            skipped.append({"task": task.id, "session": session.id, **problem.as_json()})
            continue
        queued.append({"of": task.id, "task": made.id, "session": made.session, "waits_for": waits_for})
    return {"redispatched": queued, "skipped": skipped}


async def _named_task(context: Context, name: str) -> Task:
    """The task that a name means, if it can be run again: an id, or the last of a session or key."""
    store = context.store
    kind, target = await store.resolve_target(name)
    if kind == "task":
        task = await store.task(target)
        found = await store.redispatchable_tasks(task=task.id, statuses=NAMED)
        if not found:
            raise await _not_again(context, task)
        return found[0]
    found = await store.redispatchable_tasks(session=target, statuses=NAMED)
    if not found:
        raise errors.IllegalChange(
            f"session {target} has no task that can be run again",
            hint=f"`holdfast tasks --session {target}` shows how its tasks ended",
        )
    return found[0]


async def _not_again(context: Context, task: Task) -> errors.IllegalChange:
    """Why a task cannot be run again, and what to do instead."""
    session = await context.store.session(task.session)
    hint = f'`holdfast run --session {session.id} "PROMPT"` sends a new prompt there'
    if task.status in ACTIVE:
        return errors.IllegalChange(f"task {task.id} is running", hint=f"`holdfast log -f {session.id}`")
    if task.status in PENDING:
        return errors.IllegalChange(
            f"task {task.id} is {task.status}; it has not run yet", hint="it starts by itself"
        )
    if session.state != "live":
        return await put_away(context, session)
    if task.status not in NAMED:
        return errors.IllegalChange(f"task {task.id} {task.status}, so it is not run again", hint=hint)
    return errors.IllegalChange(
        f"task {task.id} was run again already, or a later prompt has run in its session since", hint=hint
    )


async def _check(context: Context, session: Session, request: RedispatchRequest) -> str | None:
    """What the retry has to wait for, if anything; refused unless the caller asks to wait."""
    if not context.node.owns(session.host):
        raise errors.IllegalChange(f"session {session.id} is on node {session.host}")
    facts = await sessions.facts(context, session)
    found = verdict.judge(facts)
    if found.action != "wait":
        return None
    if not request.wait:
        ends = await leftovers_hint(context, session.id, facts)
        hint = f"{ends}with --wait it runs when the session becomes free"
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
