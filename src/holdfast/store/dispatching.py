"""Queueing what was judged: into its session, or into a new one that takes the place of an old one.

As everywhere nothing is written before everything is decided, for the transaction is shared with others.
"""

from __future__ import annotations

from typing import Any

from holdfast import clock, errors, ids
from holdfast.model import change as c
from holdfast.model.commit import Commit, decide, prepare
from holdfast.model.fold import View
from holdfast.model.task import Task
from holdfast.model.text import check_plain
from holdfast.model.token import TokenRules
from holdfast.store import reads, tables
from holdfast.store.commit import check_retry, write
from holdfast.store.contract import Dispatch, Replacing
from holdfast.store.sql import Sql

RETRY = "what it was judged by has changed; look again"


async def dispatch(sql: Sql, wanted: Dispatch, rules: TokenRules) -> Task:
    """Do it, or refuse it with nothing written; what was queued under the wanted id is left as it is."""
    if wanted.task is not None and (there := await _queued_before(sql, wanted)) is not None:
        return there
    judged = wanted.replaces.session if wanted.replaces is not None else wanted.session
    others: list[str] = []
    if wanted.create is None or wanted.replaces is not None:
        others = await _check(sql, wanted, judged)
    if wanted.replaces is not None:
        check_plain("by", wanted.replaces.by)
        check_plain("reason", wanted.replaces.reason)
    await check_retry(sql, wanted.retry_of)
    task = wanted.task or ids.new(ids.TASK)
    queue = c.QueueTask(prompt=wanted.prompt, options=wanted.options, retry_of=wanted.retry_of)
    first = [] if wanted.create is None else [wanted.create]
    commit = Commit(wanted.session, [*first, queue, *wanted.events], task=task)
    if wanted.create is not None:
        await _try_out(sql, commit, judged, rules)
    if wanted.replaces is not None:
        await _retire(sql, wanted.replaces, wanted.session, task, rules)
    written = await write(sql, commit, prepare(commit, clock.now()), rules)
    if wanted.replaces is not None:
        await _move(sql, wanted.replaces.session, wanted.session, others, rules)
    return written.view.tasks[task]


async def _queued_before(sql: Sql, wanted: Dispatch) -> Task | None:
    """The task of the same dispatch, made before."""
    assert wanted.task is not None
    if not ids.is_id(wanted.task, ids.TASK):
        raise errors.BadInput(f"{wanted.task!r} is no id for a task")
    if not await sql.dicts("task", id=wanted.task):
        return None
    return same(tables.as_task(await reads.task(sql, wanted.task)), wanted.prompt)


def same(there: Task, prompt: str) -> Task:
    """That task, unless its id was taken by another prompt."""
    if there.prompt != prompt:
        raise errors.IllegalChange(f"task {there.id} exists, with another prompt", task=there.id)
    return there


async def _check(sql: Sql, wanted: Dispatch, judged: str) -> list[str]:
    """Whether all is as it was judged; the prompts that wait there."""
    row = await reads.session_row(sql, judged)
    if row["state"] != "live":
        raise errors.PlanChanged(f"session {judged} is {row['state']} by now", hint=RETRY)
    moved = wanted.replaces.moved if wanted.replaces is not None else None
    own = None if moved is None else moved[0]
    others = [task for (task,) in await sql.rows("open_tasks", n=row["n"]) if task != own]
    if moved is not None:
        found = await reads.task(sql, moved[0])
        if found["generation"] != moved[1] or found["status"] != "running":
            raise errors.StaleGeneration(f"task {moved[0]} is {found['status']} in {found['generation']}")
    elif others and not wanted.queue:
        raise errors.SessionRunning(
            f"task {others[0]} of session {judged} runs or waits for its turn",
            hint="--queue puts it behind that one",
            task=others[0],
            session=judged,
        )
    if wanted.seen is not None and row["seq"] != wanted.seen:
        raise errors.PlanChanged(f"session {judged} has gone on since it was judged", hint=RETRY)
    return others


async def _try_out(sql: Sql, commit: Commit, replaced: str, rules: TokenRules) -> None:
    """Refuse now what would be refused when the old session is already put away."""
    now = clock.now()
    created = commit.entries[0]
    assert isinstance(created, c.Create)
    key = created.key if created.key is not None and reads.is_text(created.key) else None
    held = await sql.rows("live_key", key=key) if key is not None else []
    holder = held[0][0] if held and held[0][0] != replaced else None
    decide(View(), commit, prepare(commit, now), (), holder, rules, now)


async def _retire(sql: Sql, old: Replacing, session: str, task: str, rules: TokenRules) -> None:
    archive = Commit(old.session, [c.Archive(by=old.by, reason=old.reason)])
    prepared = prepare(archive, clock.now())
    if old.moved is not None:
        await _write(sql, _gone_on(old.session, *old.moved, session=session, task=task), rules)
    await write(sql, archive, prepared, rules)


async def _move(sql: Sql, old: str, session: str, tasks: list[str], rules: TokenRules) -> None:
    """The prompts that wait in the old session go on waiting in the new one."""
    for name in tasks:
        found = tables.as_task(await reads.task(sql, name))
        new = ids.new(ids.TASK)
        await _write(sql, _gone_on(old, name, None, session=session, task=new), rules)
        queue = c.QueueTask(prompt=found.prompt, options=found.options, retry_of=name)
        await _write(sql, Commit(session, [queue], task=new), rules)


def _gone_on(old: str, moved: str, generation: int | None, *, session: str, task: str) -> Commit:
    outcome: dict[str, Any] = {"moved_to": {"session": session, "task": task}}
    reason = f"it goes on as task {task} of session {session}"
    change = c.SetStatus(status="cancelled", reason=reason, outcome=outcome)
    return Commit(old, [change], task=moved, generation=generation)


async def _write(sql: Sql, commit: Commit, rules: TokenRules) -> None:
    await write(sql, commit, prepare(commit, clock.now()), rules)
