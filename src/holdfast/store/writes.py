"""The write path of both stores: load what a commit needs, decide, write everything in one transaction.

All decisions come before the first write, so a refused commit needs no rollback and can share its
transaction with others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast import errors, ids, timestamps
from holdfast.model import changes as c
from holdfast.model.commit import Commit, Decision, Draft, Prepared, decide, prepare
from holdfast.model.event import CHANGE_KINDS, CONVERSATION
from holdfast.model.json_codec import check_plain, encode
from holdfast.model.projection import View, replace
from holdfast.model.task import ACTIVE, PENDING, Owner, Task
from holdfast.model.token import TokenRules
from holdfast.store import reads
from holdfast.store import rows as tables
from holdfast.store.rows import Loaded
from holdfast.store.sql import Row, Sql
from holdfast.store.types import Dispatch, SessionReplacement


class WriteResult(NamedTuple):
    """What a commit added."""

    seqs: range  # of the records it added
    dropped: int  # events whose origin was already in the log
    unchanged: int  # changes without effect
    view: View


async def write(sql: Sql, commit: Commit, prepared: Prepared, rules: TokenRules) -> WriteResult:
    """Add a commit to the log of its session and update the views."""
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
    decision = decide(view, commit, prepared, known, holder, rules, timestamps.now())
    return await put(sql, commit, loaded, view, decision)


async def put(
    sql: Sql, commit: Commit, loaded: Loaded | None, before: View, decision: Decision
) -> WriteResult:
    """Write a decision."""
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
        last_id = await sql.reserve(len(drafts))
        rows: list[Row] = [
            (*draft, seq + i, last_id + i, n, task, None, False) for i, draft in enumerate(drafts, 1)
        ]
        rows[-1] = (*rows[-1][:-2], spool, True)
        await sql.many("add_log", rows)
        sql.note_origins(n, seq, drafts)
    sql.remember(session, Loaded(n, after) if _is_plain(drafts) else None)
    return WriteResult(range(seq + 1, seq + 1 + len(drafts)), dropped, unchanged, after)


def _is_plain(drafts: Sequence[Draft]) -> bool:
    """Whether these are only events, so that the resulting view can be cached."""
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
        counts = (session.events, session.messages, session.updated_at, n)
        await sql.many("put_place", [counts])
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
        if wanted is not None and (holders := await sql.rows("live_key", key=wanted)):
            return str(holders[0][0])
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
    if retries := await sql.rows("retried", retry_of=task):
        raise errors.IllegalChange(f"task {task} already has the retry {retries[0][0]}", task=retries[0][0])


# --- claiming


async def claim(
    sql: Sql, task_id: str, generation: int, owner: Owner, lease_until: str, rules: TokenRules
) -> Task:
    """Make `owner` the only owner of a task that is still in that generation.

    A queued task must have no rival: no other active task on its session or on the same native
    conversation. An active task gets a new owner; the caller must know that the old one is dead.
    """
    rows = await sql.dicts("task", id=task_id) if ids.is_id(task_id, ids.TASK) else []
    if not rows:
        raise errors.NotFound(f"there is no task {task_id!r}")
    session = rows[0]["session"]
    loaded = await tables.load(sql, session, metadata=False, tokens=False, active=False, task=task_id)
    assert loaded is not None
    task = loaded.view.tasks[task_id]
    if task.generation != generation or not (task.status in PENDING or task.status in ACTIVE):
        raise errors.StaleGeneration(
            f"task {task_id} is {task.status} in generation {task.generation}",
            generation=task.generation,
            status=task.status,
        )
    if task.status in PENDING and loaded.view.session and loaded.view.session.state == "archived":
        raise errors.IllegalChange(
            f"session {session} is archived; its prompts wait", hint="unarchive it to run them"
        )
    if task.status in PENDING and (rivals := await sql.rows("rivals", task=task_id, n=loaded.n)):
        raise errors.SessionRunning(f"task {rivals[0][0]} drives the same conversation", task=rivals[0][0])
    change = c.ClaimTask(owner=owner, generation=generation + 1, lease_until=lease_until)
    commit = Commit(session, [change], task=task_id)
    now = timestamps.now()
    decision = decide(loaded.view, commit, prepare(commit, now), (), None, rules, now)
    written = await put(sql, commit, loaded, loaded.view, decision)
    return written.view.tasks[task_id]


# --- dispatching a prompt into its session, or into a new session that replaces the old one

RETRY = "the state behind the verdict has changed; look again"


async def dispatch(sql: Sql, wanted: Dispatch, rules: TokenRules) -> Task:
    """Queue the prompt, or refuse it and write nothing. A task with the same id is returned unchanged."""
    if wanted.task is not None and (there := await _queued_before(sql, wanted)) is not None:
        return there
    judged = wanted.replaces.session if wanted.replaces is not None else wanted.session
    others: list[str] = []
    if wanted.unarchive_by is not None:
        await _check_archived(sql, wanted)
    elif wanted.create is None or wanted.replaces is not None:
        others = await _check(sql, wanted, judged)
    if wanted.replaces is not None:
        check_plain("by", wanted.replaces.by)
        check_plain("reason", wanted.replaces.reason)
    await check_retry(sql, wanted.retry_of)
    task = wanted.task or ids.new(ids.TASK)
    queue = c.QueueTask(prompt=wanted.prompt, options=wanted.options, retry_of=wanted.retry_of)
    first: list[c.Change] = [] if wanted.create is None else [wanted.create]
    if wanted.unarchive_by is not None:
        first.append(c.Unarchive(by=wanted.unarchive_by))
    commit = Commit(wanted.session, [*first, queue, *wanted.events], task=task)
    if wanted.create is not None:
        await _check_creation(sql, commit, judged, rules)
    elif wanted.unarchive_by is not None:
        loaded = await tables.load(sql, wanted.session, metadata=False, tokens=False, active=False, task=task)
        assert loaded is not None  # checked above
        now = timestamps.now()
        decide(loaded.view, commit, prepare(commit, now), (), None, rules, now)
    if wanted.replaces is not None:
        await _retire(sql, wanted.replaces, wanted.session, task, rules)
    written = await write(sql, commit, prepare(commit, timestamps.now()), rules)
    if wanted.replaces is not None:
        await _move(sql, wanted.replaces.session, wanted.session, others, rules)
    return written.view.tasks[task]


async def _queued_before(sql: Sql, wanted: Dispatch) -> Task | None:
    """The task of an earlier, equal dispatch."""
    assert wanted.task is not None
    if not ids.is_id(wanted.task, ids.TASK):
        raise errors.BadInput(f"{wanted.task!r} is not a task id")
    if not await sql.dicts("task", id=wanted.task):
        return None
    return same(tables.as_task(await reads.task(sql, wanted.task)), wanted.prompt)


def same(there: Task, prompt: str) -> Task:
    """The task, unless it has another prompt."""
    if there.prompt != prompt:
        raise errors.IllegalChange(f"task {there.id} exists, with another prompt", task=there.id)
    return there


async def _check(sql: Sql, wanted: Dispatch, judged: str) -> list[str]:
    """Check that the state behind the verdict is unchanged. Returns the open tasks of the session."""
    row = await reads.session_row(sql, judged)
    if row["state"] != "live":
        raise errors.PlanChanged(f"session {judged} is now {row['state']}", hint=RETRY)
    moved = wanted.replaces.moved if wanted.replaces is not None else None
    own = None if moved is None else moved[0]
    others = [task for task, _ in await sql.rows("open_tasks", n=row["n"]) if task != own]
    if moved is not None:
        task = await reads.task(sql, moved[0])
        if task["generation"] != moved[1] or task["status"] not in PENDING:
            raise errors.StaleGeneration(
                f"task {moved[0]} is {task['status']} in generation {task['generation']}"
            )
    elif others and not wanted.queue:
        raise errors.SessionRunning(
            f"task {others[0]} of session {judged} is running or queued",
            hint="--queue puts the prompt behind it",
            task=others[0],
            session=judged,
        )
    if wanted.seen is not None and row["seq"] != wanted.seen:
        raise errors.PlanChanged(f"session {judged} has changed since the verdict", hint=RETRY)
    return others


async def _check_archived(sql: Sql, wanted: Dispatch) -> None:
    """Check that the session is still archived, and that the holder of its key has no open task."""
    row = await reads.session_row(sql, wanted.session)
    holder = None if row["key"] is None else await reads.key_holder(sql, row["key"])
    expected = None if wanted.replaces is None else wanted.replaces.session
    if row["state"] != "archived" or holder != expected or wanted.seen not in (None, row["seq"]):
        raise errors.PlanChanged(f"session {wanted.session} has changed since the verdict", hint=RETRY)
    for session in (wanted.session, holder):
        n = None if session is None else (await reads.session_row(sql, session))["n"]
        tasks = [] if n is None else await sql.rows("open_tasks", n=n)
        if tasks:
            task = tasks[0][0]
            raise errors.SessionRunning(
                f"task {task} of session {session} is running or queued",
                hint=f"wait for it, or `holdfast cancel {task}`",
                task=task,
                session=session,
            )


async def _check_creation(sql: Sql, commit: Commit, replaced: str, rules: TokenRules) -> None:
    """Refuse now what would be refused after the old session is archived."""
    now = timestamps.now()
    created = commit.entries[0]
    assert isinstance(created, c.Create)
    key = created.key if created.key is not None and reads.is_text(created.key) else None
    held = await sql.rows("live_key", key=key) if key is not None else []
    holder = held[0][0] if held and held[0][0] != replaced else None
    decide(View(), commit, prepare(commit, now), (), holder, rules, now)


async def _retire(sql: Sql, old: SessionReplacement, session: str, task: str, rules: TokenRules) -> None:
    archive = Commit(old.session, [c.Archive(by=old.by, reason=old.reason)])
    prepared = prepare(archive, timestamps.now())
    if old.moved is not None:
        await _write(sql, _moved(old.session, old.moved[0], session=session, task=task), rules)
    await write(sql, archive, prepared, rules)


async def _move(sql: Sql, old: str, session: str, tasks: list[str], rules: TokenRules) -> None:
    """Move the queued prompts of the old session to the new one."""
    for name in tasks:
        queued = tables.as_task(await reads.task(sql, name))
        new = ids.new(ids.TASK)
        await _write(sql, _moved(old, name, session=session, task=new), rules)
        queue = c.QueueTask(prompt=queued.prompt, options=queued.options, retry_of=name)
        await _write(sql, Commit(session, [queue], task=new), rules)


def _moved(old: str, moved: str, *, session: str, task: str) -> Commit:
    outcome: dict[str, Any] = {"moved_to": {"session": session, "task": task}}
    reason = f"continues as task {task} of session {session}"
    change = c.SetStatus(status="cancelled", reason=reason, outcome=outcome)
    return Commit(old, [change], task=moved)


async def _write(sql: Sql, commit: Commit, rules: TokenRules) -> None:
    await write(sql, commit, prepare(commit, timestamps.now()), rules)
