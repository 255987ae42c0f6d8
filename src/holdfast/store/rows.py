"""Converts views to table rows, and rows to structs."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import ids
from holdfast.errors import StoreUnreadable
from holdfast.model.event import Event, Origin
from holdfast.model.json_codec import decode, encode
from holdfast.model.projection import View, replace
from holdfast.model.session import ArchiveNote, Deletion, Header, Link, Session, Worktree
from holdfast.model.task import Task
from holdfast.model.token import Token
from holdfast.store.json_views import read_metadata, session_view, task_view
from holdfast.store.sql import Row, Sql

JSON = (Worktree, ArchiveNote, Deletion, Link)  # adjacent columns of a list
NO_JSON = (None,) * len(JSON)
WIDTH = len(Header.__struct_fields__)
FIRST_JSON = Header.__struct_fields__.index("worktree")
PAST_JSON = FIRST_JSON + len(JSON)


def as_session(view: dict[str, Any]) -> Session:
    """A header as a struct."""
    try:
        return msgspec.convert(view, Session)
    except msgspec.ValidationError as problem:
        raise StoreUnreadable(f"the stored header of {view.get('id')} cannot be read: {problem}") from None


def as_header(row: Row) -> Header:
    """A row of a list as a struct. Most rows have no JSON columns."""
    if row[FIRST_JSON:PAST_JSON] != NO_JSON:
        decoded = [
            None if text is None else _decoded(text, shape)
            for text, shape in zip(row[FIRST_JSON:PAST_JSON], JSON, strict=True)
        ]
        row = (*row[:FIRST_JSON], *decoded, *row[PAST_JSON:])
    return Header(*row[:WIDTH])


def _decoded(text: str, shape: type[Any]) -> Any:
    """A JSON column of a list. None if it is damaged: the doctor reports it, the list stays readable."""
    try:
        return msgspec.json.decode(text, type=shape)
    except (msgspec.DecodeError, TypeError):
        return None


def listed_session(view: dict[str, Any]) -> Session:
    """A header in a list. A damaged column must not hide the other sessions."""
    try:
        return msgspec.convert(view, Session)
    except msgspec.ValidationError:
        return Session(**{name: view[name] for name in Session.__struct_fields__ if name in view})


def listed_task(view: dict[str, Any]) -> Task:
    """A task in a list. A damaged column must not hide the other tasks."""
    try:
        return msgspec.convert(view, Task)
    except msgspec.ValidationError:
        return Task(**{name: view[name] for name in Task.__struct_fields__ if name in view})


def as_token(row: dict[str, Any]) -> Token:
    """A token row as a struct."""
    return msgspec.convert(row, Token)


def as_task(view: dict[str, Any]) -> Task:
    """A task as a struct."""
    return msgspec.convert(view, Task)


class Loaded(msgspec.Struct, frozen=True):
    """The parts of a session that a commit needs."""

    n: int
    view: View


async def load(
    sql: Sql, session: str, *, metadata: bool, tokens: bool, active: bool, task: str | None
) -> Loaded | None:
    """Load a session and the requested parts of its view."""
    rows = await sql.dicts("session", id=session) if ids.is_id(session, ids.SESSION) else []
    if not rows:
        return None
    row = rows[0]
    n = row["n"]
    header = session_view(row)
    header["metadata"], header["metadata_problem"] = (
        read_metadata((await sql.rows("metadata", n=n))[0][0]) if metadata else ({}, None)
    )
    lineage = [as_token(t) for t in await sql.dicts("tokens", n=n)] if tokens else []
    wanted = {task} if task and ids.is_id(task, ids.TASK) else set()
    if active:
        wanted |= {name for (name,) in await sql.rows("active_tasks", n=n)}
    tasks = {}
    for name in sorted(wanted):
        for stored in await sql.dicts("task", id=name):
            if stored["session"] == session:
                tasks[name] = as_task(task_view(stored))
    return Loaded(n, View(as_session(header), tuple(lineage), tasks))


def session_values(session: Session) -> dict[str, Any]:
    """The columns of a header."""
    return {
        "id": session.id,
        "key": session.key,
        "agent": session.agent,
        "cwd": session.cwd,
        "host": session.host,
        "title": session.title,
        "state": session.state,
        "worktree": _json(session.worktree),
        "archive": _json(session.archive),
        "deletion": _json(session.deletion),
        "link": _json(session.link),
        "undone": session.undone,
        "version": session.version,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "seq": session.events,
        "messages": session.messages,
        "tasks": session.tasks,
        "search": search_text(session),
    }


def search_text(session: Session) -> str:
    """The text that a text filter searches."""
    branch = session.worktree.branch if session.worktree else None
    parts = (session.title, session.key, session.cwd, branch, session.agent, session.id)
    return "\n".join(part for part in parts if part).casefold()


async def put_tokens(sql: Sql, n: int, before: tuple[Token, ...], after: tuple[Token, ...]) -> None:
    """Write the changed tokens of a lineage."""
    for pos, token in enumerate(after):
        if pos >= len(before) or before[pos] is not token:
            await sql.run("put_token", n=n, pos=pos, **msgspec.structs.asdict(token))


async def put_tasks(sql: Sql, n: int, before: dict[str, Task], after: dict[str, Task]) -> None:
    """Write the changed tasks of a session."""
    for name, task in after.items():
        old = before.get(name)
        if old is task:
            continue
        if old is not None and replace(old, spool=task.spool) == task:
            await sql.many("put_spool", [(task.spool, name)])
            continue
        values = msgspec.structs.asdict(task)
        del values["session"]
        for column in ("prompt", "options", "owner", "outcome", "waiting_for"):
            values[column] = _json(values[column])
        await sql.run("put_task", n=n, **values)


def _json(value: Any) -> str | None:
    return None if value is None else encode(value).decode()


def as_event(row: Row) -> Event:
    """A log row as an event."""
    seq, kind, at, task, replayed, origin, _spool, _last, body = row
    where = None if origin is None else Origin(**decode(origin))
    return Event(seq, kind, decode(body), at, task, bool(replayed), where)


def as_events(rows: list[Row]) -> list[Event]:
    """Log rows as events."""
    return [as_event(row) for row in rows]
