"""How are records added to a log, or replaced in it, and its views rebuilt?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast import errors, timestamps
from holdfast.model import changes as c
from holdfast.model.event import Record
from holdfast.model.json_codec import encode
from holdfast.model.projection import View, fold, replace, step
from holdfast.model.task import Task
from holdfast.store import json_views
from holdfast.store import rows as tables
from holdfast.store.backend import OperationResult
from holdfast.store.mirror.compare import pages
from holdfast.store.sql import Sql
from holdfast.store.store import Store


async def add_records(
    store: Store, session: str, records: Sequence[Record], *, archive_on_conflict: bool = True
) -> int:
    """Add records to the log of a session, which may be new. Returns how many were added.

    They must follow the log's last record; records that the log already has are skipped. If another
    live session has the same key, this one is archived, or without `archive_on_conflict` KeyTaken.
    """

    async def operation(sql: Sql) -> OperationResult:
        sql.forget()
        n, view = await load_view(sql, session)
        head = view.session.events if view.session else 0
        new = [record for record in records if record.seq > head]
        await _check_same_history(sql, session, n, head, records)
        for seq, record in enumerate(new, head + 1):
            if record.seq != seq:
                raise errors.IllegalChange(f"record {record.seq} does not follow {seq - 1} in {session}")
        if not new:
            return OperationResult(0)
        after = fold(session, new, view)
        after, archived = await _release_key(sql, session, after, archive_on_conflict)
        await _put(sql, session, n, view, after, [*new, *archived])
        return OperationResult(len(new), session)

    added: int = await store.transact(operation)
    return added


async def _check_same_history(
    sql: Sql, session: str, n: int | None, head: int, records: Sequence[Record]
) -> None:
    """Refuse records of another history: if they include the log's last record, it must be the same."""
    theirs = next((record for record in records if record.seq == head), None)
    if n is not None and theirs is not None:
        ours = Record(*(await sql.rows("log", n=n, after=head - 1, limit=1))[0])
        if ours != theirs:
            raise errors.IllegalChange(f"record {head} of {session} differs from the one in the database")


async def rebuild_views(store: Store, session: str) -> None:
    """Rebuild a session's views from its log."""

    async def operation(sql: Sql) -> OperationResult:
        sql.forget()
        n = (await sql.dicts("session", id=session))[0]["n"]
        await _rebuild_views(sql, n, session)
        return OperationResult(None, session)

    await store.transact(operation)


async def replace_records(store: Store, session: str, records: Sequence[Record]) -> None:
    """Give a session a new log with these records in place of those with the same seqs, and new views.

    No record is rewritten: the old log stays in the table, and nothing refers to it.
    """

    async def operation(sql: Sql) -> OperationResult:
        sql.forget()
        old = (await sql.dicts("session", id=session))[0]["n"]
        log = {record.seq: record async for page in pages(sql, old) for record in page}
        log |= {record.seq: record for record in records}
        new = int((await sql.rows("next_n"))[0][0])
        await sql.run("move_session", n=old, new=new)
        await sql.run("move_tasks", n=old, new=new)
        await sql.run("drop_tokens", n=old)
        await _add_log(sql, new, [log[seq] for seq in sorted(log)])
        await _rebuild_views(sql, new, session)
        return OperationResult(None, session)

    await store.transact(operation)


async def _rebuild_views(sql: Sql, n: int, session: str) -> None:
    view = await fold_log(sql, n, session)
    assert view.session is not None
    await sql.run("put_session", n=n, **tables.session_values(view.session))
    await sql.run("put_metadata", n=n, metadata=encode(view.session.metadata))
    await sql.run("drop_tokens", n=n)
    await tables.put_tokens(sql, n, (), view.tokens)
    for (task,) in await sql.rows("tasks_of", n=n):
        if task not in view.tasks:
            await sql.run("drop_task", id=task)
    await tables.put_tasks(sql, n, {}, view.tasks)
    for task in view.tasks.values():  # columns that never change, so put_tasks does not write them
        values = msgspec.structs.asdict(task)
        for column in ("prompt", "options"):
            values[column] = encode(values[column]).decode()
        await sql.run("put_task_again", n=n, **values)


async def order_queue(store: Store) -> None:
    """Order the queue by the time that each task was queued, for sessions that are back."""

    async def operation(sql: Sql) -> OperationResult:
        return OperationResult(await sql.run("order_queue"))

    await store.transact(operation)


async def fold_log(sql: Sql, n: int, session: str) -> View:
    """The view that a log gives, with the leases and offsets of its tasks from the tables."""
    view = View()
    async for page in pages(sql, n):
        view = fold(session, page, view)
    tasks = {}
    for name, task in view.tasks.items():
        rows = await sql.dicts("task", id=name)
        tasks[name] = _with_lease(task, rows[0]) if rows else task
    return replace(view, tasks=tasks)


async def load_view(sql: Sql, session: str) -> tuple[int | None, View]:
    """A session's number and its whole view, from the tables."""
    rows = await sql.dicts("session", id=session)
    if not rows:
        return None, View()
    n = rows[0]["n"]
    header = json_views.session_view(rows[0])
    stored = (await sql.rows("metadata", n=n))[0][0]
    header["metadata"], header["metadata_problem"] = json_views.read_metadata(stored)
    tokens = tuple(tables.as_token(row) for row in await sql.dicts("tokens", n=n))
    tasks = {}
    for row in await sql.dicts("tasks", session=session, status="", limit=1 << 31):
        task = tables.as_task(json_views.task_view(row))
        tasks[task.id] = task
    return n, View(tables.as_session(header), tokens, tasks)


def _with_lease(task: Task, row: dict[str, Any]) -> Task:
    """Leases and offsets change without a record, so the tables are newer than the log."""
    if (row["generation"], row["status"]) != (task.generation, task.status):
        return task  # an older row: a task that was given back since has a new offset
    return replace(task, lease_until=row["lease_until"], spool=max(task.spool, row["spool"]))


async def _release_key(
    sql: Sql, session: str, after: View, archive_on_conflict: bool
) -> tuple[View, list[Record]]:
    """If another live session has the key, that one keeps it and this one is archived with a reason."""
    header = after.session
    assert header is not None
    if header.state != "live" or header.key is None:
        return after, []
    holder = [row[0] for row in await sql.rows("live_key", key=header.key) if row[0] != session]
    if not holder:
        return after, []
    if not archive_on_conflict:
        raise errors.KeyTaken(f"session {holder[0]} is live under the key {header.key}", session=holder[0])
    change = c.Archive(by="holdfast heal", reason=f"its key is live in {holder[0]}")
    body = msgspec.json.encode(change).decode()
    record = Record(header.events + 1, "session", timestamps.now(), None, False, None, None, True, body)
    return step(session, after, record), [record]


async def _put(
    sql: Sql, session: str, n: int | None, before: View, after: View, records: Sequence[Record]
) -> None:
    header = after.session
    assert header is not None
    values = tables.session_values(header)
    metadata = encode(header.metadata)
    if n is None:
        n = int((await sql.rows("next_n"))[0][0])
        await sql.run("add_session", n=n, metadata=metadata, **values)
    else:
        await sql.run("put_session", n=n, **values)
        if before.session is not None and before.session.metadata is not None:
            await sql.run("put_metadata", n=n, metadata=metadata)
    await tables.put_tokens(sql, n, before.tokens, after.tokens)
    await tables.put_tasks(sql, n, before.tasks, after.tasks)
    await _add_log(sql, n, records)


async def _add_log(sql: Sql, n: int, records: Sequence[Record]) -> None:
    last_id = await sql.reserve(len(records))
    await sql.many(
        "add_log",
        [
            (r.kind, r.at, r.replayed, r.origin, r.body, r.seq, last_id + i, n, r.task, r.spool, r.last)
            for i, r in enumerate(records, 1)
        ],
    )
