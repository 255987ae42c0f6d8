"""The write path of both stores: load what a commit touches, decide, write it all in one transaction.

Nothing is written before everything is decided, so a refused commit needs no rollback and can share
its transaction with others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast import clock, errors, ids
from holdfast.model import change as c
from holdfast.model.commit import Commit, Decision, Draft, Prepared, decide, prepare
from holdfast.model.event import CHANGE_KINDS, CONVERSATION
from holdfast.model.fold import View, replace
from holdfast.model.task import ACTIVE, Owner, Task
from holdfast.model.text import check_plain, encode
from holdfast.model.token import TokenRules
from holdfast.store import tables
from holdfast.store.sql import Row, Sql
from holdfast.store.tables import Loaded


class Written(NamedTuple):
    """What a commit came to."""

    seqs: range  # of the records it added
    dropped: int  # events that were there already, by origin
    unchanged: int  # changes that said what was so already
    view: View


async def write(sql: Sql, commit: Commit, prepared: Prepared, rules: TokenRules) -> Written:
    """Add a commit to its session's log and move the views with it."""
    changes = prepared.changes
    loaded = None if changes else sql.recall(commit.session)
    if loaded is None or (commit.task is not None and commit.task not in loaded.view.tasks):
        loaded = await tables.load(
            sql,
            commit.session,
            metadata=any(isinstance(e, c.PatchMetadata) for e in changes),
            tokens=any(c.KIND_OF[type(e)] == "token" for e in changes),
            active=any(isinstance(e, c.Delete) for e in changes),
            task=commit.task,
        )
    view = loaded.view if loaded else View()
    holder = await _key_holder(sql, view, changes) if changes else None
    known: set[str] = set()
    if prepared.origins and loaded and view.session:
        known = await sql.known_origins(loaded.n, view.session.events, prepared.origins)
    for change in changes:
        await _check_queued(sql, commit, change)
    decision = decide(view, commit, prepared, known, holder, rules, clock.now())
    return await put(sql, commit, loaded, view, decision)


async def put(sql: Sql, commit: Commit, loaded: Loaded | None, before: View, decision: Decision) -> Written:
    """Write what was decided."""
    drafts, after, dropped, unchanged = decision
    session, task, spool = commit.session, commit.task, commit.spool
    if spool is not None and task is not None and after.tasks[task].spool != spool:
        after = replace(after, tasks={**after.tasks, task: replace(after.tasks[task], spool=spool)})
    described = after.session is not before.session
    after = _count(after, drafts)
    n = loaded.n if loaded else int((await sql.rows("next_n"))[0][0])
    seq = before.session.events if before.session else 0
    await _put_view(sql, n, before, after, described, bool(drafts))
    if drafts:
        place = await sql.reserve(len(drafts))
        rows: list[Row] = [
            (*draft, seq + i, place + i, n, task, None, False) for i, draft in enumerate(drafts, 1)
        ]
        rows[-1] = (*rows[-1][:-2], spool, True)
        await sql.many("add_log", rows)
        sql.note_origins(n, seq, drafts)
    sql.remember(session, Loaded(n, after) if _is_plain(drafts) else None)
    return Written(range(seq + 1, seq + 1 + len(drafts)), dropped, unchanged, after)


def _is_plain(drafts: Sequence[Draft]) -> bool:
    """Whether these are events only, so that the view they leave may be used again as it is."""
    return CHANGE_KINDS.isdisjoint([draft[0] for draft in drafts])


def _count(view: View, drafts: Sequence[Draft]) -> View:
    if not drafts or view.session is None:
        return view
    session = replace(
        view.session,
        events=view.session.events + len(drafts),
        messages=view.session.messages + len([d for d in drafts if d[0] in CONVERSATION]),
        updated_at=max(view.session.updated_at, max([d[1] for d in drafts])),
    )
    return replace(view, session=session)


async def _put_view(sql: Sql, n: int, before: View, after: View, described: bool, grew: bool) -> None:
    session, old = after.session, before.session
    assert session is not None
    if old is None:
        metadata = encode(session.metadata)
        await sql.run("add_session", n=n, metadata=metadata, **tables.session_values(session))
    elif described:
        await sql.run("put_session", n=n, **tables.session_values(session))
        if session.version != old.version:
            await sql.run("put_metadata", n=n, metadata=encode(session.metadata))
    elif grew:
        place = (session.events, session.messages, session.updated_at, n)
        await sql.many("put_place", [place])
    if after.tokens is not before.tokens:
        await tables.put_tokens(sql, n, before.tokens, after.tokens)
    if after.tasks is not before.tasks:
        await tables.put_tasks(sql, n, before.tasks, after.tasks)


async def _key_holder(sql: Sql, view: View, changes: Sequence[c.Change]) -> str | None:
    for change in changes:
        match change:
            case c.Create() | c.Describe() if isinstance(change.key, str):
                wanted: str | None = change.key
            case c.Unarchive() | c.Restore() if view.session is not None:
                wanted = view.session.key
            case _:
                continue
        check_plain("key", wanted)
        if wanted is not None and (found := await sql.rows("live_key", key=wanted)):
            return str(found[0][0])
    return None


async def _check_queued(sql: Sql, commit: Commit, change: c.Change) -> None:
    if not isinstance(change, c.QueueTask):
        return
    if commit.task and ids.is_id(commit.task, ids.TASK) and await sql.dicts("task", id=commit.task):
        raise errors.IllegalChange(f"task {commit.task} exists")
    await check_retry(sql, change.retry_of)


async def check_retry(sql: Sql, task: str | None) -> None:
    """Refuse a second retry of one task."""
    if task is None:
        return
    check_plain("retry_of", task)
    if not await sql.dicts("task", id=task):
        raise errors.NotFound(f"there is no task {task}")
    if found := await sql.rows("retried", retry_of=task):
        raise errors.IllegalChange(f"task {task} was put back as {found[0][0]} already", task=found[0][0])


# --- claiming


async def claim(
    sql: Sql, task_id: str, generation: int, owner: Owner, lease_until: str, rules: TokenRules
) -> Task:
    """Make `owner` the one owner of a task that is still in that generation.

    A queued task must have no rival: no other active task on its session, none on the same native
    conversation. An active one changes hands; that its owner is dead is for the caller to know.
    """
    rows = await sql.dicts("task", id=task_id) if ids.is_id(task_id, ids.TASK) else []
    if not rows:
        raise errors.NotFound(f"there is no task {task_id!r}")
    session = rows[0]["session"]
    loaded = await tables.load(sql, session, metadata=False, tokens=False, active=False, task=task_id)
    assert loaded is not None
    task = loaded.view.tasks[task_id]
    if task.generation != generation or not (task.status == "queued" or task.status in ACTIVE):
        raise errors.StaleGeneration(
            f"task {task_id} is {task.status} in generation {task.generation}",
            generation=task.generation,
            status=task.status,
        )
    if task.status == "queued" and loaded.view.session and loaded.view.session.state == "archived":
        raise errors.IllegalChange(
            f"session {session} is archived; its prompts wait", hint="unarchive it to run them"
        )
    if task.status == "queued" and (rivals := await sql.rows("rivals", task=task_id, n=loaded.n)):
        raise errors.SessionRunning(f"task {rivals[0][0]} drives the same conversation", task=rivals[0][0])
    change = c.ClaimTask(owner=owner, generation=generation + 1, lease_until=lease_until)
    commit = Commit(session, [change], task=task_id)
    now = clock.now()
    decision = decide(loaded.view, commit, prepare(commit, now), (), None, rules, now)
    written = await put(sql, commit, loaded, loaded.view, decision)
    return written.view.tasks[task_id]


async def claim_next(
    sql: Sql,
    owner: Owner,
    lease_until: str,
    agents: frozenset[str] | None,
    any_host: bool,
    rules: TokenRules,
) -> Task | None:
    """Claim the first queued task that may run for this owner, if there is one."""
    for task_id, generation, agent, host, n in await sql.rows("queue"):
        if agents is not None and agent not in agents:
            continue
        if not any_host and host is not None and host != owner.host:
            continue
        if await sql.rows("rivals", task=task_id, n=n):
            continue
        return await claim(sql, task_id, generation, owner, lease_until, rules)
    return None
