"""The read queries of a store, with plain JSON values as results.

Kept free of msgspec and asyncio: reading commands import this at every start.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, TypedDict, Unpack

from holdfast import ids
from holdfast.errors import Ambiguous, BadInput, NotFound
from holdfast.model.permissions import unanswered
from holdfast.store.json_views import Json, listed_task_view, session_view, task_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.store.sql import Row, Sql

PAGE = 500  # most records in a page
PAGE_CHARACTERS = 8_000_000  # most characters of bodies in a page; the record that exceeds it is the last one
ALL = 1 << 62  # a limit that cuts nothing
LAST = ("~", 1 << 62)  # sorts after every (updated_at, n)

UPDATED_AT, N = 4, 20  # columns of a list
ORIGIN = 5  # a column of a record

BAD_TEXT = "\ufffd"  # in place of bytes that are not UTF-8


class Filters(TypedDict, total=False):
    """Selects the sessions of a list. Without a filter: all that are not deleted and not empty."""

    state: str
    agent: str
    key: str
    text: str
    status: str  # of the last task
    empty: bool


def is_text(text: str) -> bool:
    """Whether a header can contain `text`. If not, a search for it finds nothing."""
    try:
        return "\0" not in text and len(text.encode()) <= 4096
    except UnicodeEncodeError:
        return False


def is_number(text: str) -> bool:
    """Whether `text` is a number of a list or a log."""
    return text.isascii() and text.isdigit() and len(text) <= 18


def check_limit(limit: int) -> None:
    """Refuse a page without entries."""
    if limit < 1:
        raise BadInput(f"a page has at least one entry, not {limit}")


async def session_row(sql: Sql, session: str) -> Json:
    """The row of a session, without its metadata."""
    rows = await sql.dicts("session", id=session) if ids.is_id(session, ids.SESSION) else []
    if not rows:
        raise NotFound(f"there is no session {session!r}")
    return rows[0]


async def resolve(sql: Sql, name: str) -> str:
    """The id of the session that `name` means: an id, a key, or the unique beginning of an id."""
    if ids.is_id(name, ids.SESSION):
        if await sql.dicts("session", id=name):
            return name
    elif is_text(name) and (rows := await sql.rows("keyed", key=name)):
        return str(rows[0][0])
    elif ids.is_beginning(name, ids.SESSION):
        return await _beginning(sql, "ids_like", name, "session")
    raise NotFound(f"there is no session with the id or key {name!r}", hint="`holdfast ls` lists them")


async def key_holder(sql: Sql, key: str) -> str | None:
    """The live session that has the key."""
    rows = await sql.rows("live_key", key=key) if is_text(key) else []
    return str(rows[0][0]) if rows else None


async def resolve_task(sql: Sql, name: str) -> str:
    """The id of the task that `name` is, or is the unique beginning of."""
    if not ids.is_beginning(name, ids.TASK):
        raise NotFound(f"there is no task {name!r}", hint="`holdfast tasks` lists them")
    return await _beginning(sql, "task_ids_like", name, "task")


async def resolve_target(sql: Sql, name: str) -> tuple[str, str]:
    """What `name` means: ("task", id) or ("session", id), the latter also by its key."""
    if ids.is_id(name, ids.TASK):
        return "task", await resolve_task(sql, name)
    try:
        return "session", await resolve(sql, name)
    except Ambiguous:
        raise
    except NotFound:
        if ids.is_beginning(name, ids.TASK) and await sql.rows("task_ids_like", pattern=name + "%"):
            return "task", await resolve_task(sql, name)
    raise NotFound(
        f"there is no task, session or key {name!r}", hint="`holdfast tasks` and `holdfast ls` list them"
    )


async def _beginning(sql: Sql, query: str, name: str, what: str) -> str:
    rows = await sql.rows(query, pattern=name + "%")
    if len(rows) > 1:
        raise Ambiguous(f"several {what}s begin with {name}")
    if not rows:
        raise NotFound(f"there is no {what} {name!r}")
    return str(rows[0][0])


async def session(sql: Sql, session: str) -> Json:
    """A session's header."""
    row = await session_row(sql, session)
    row["metadata"] = (await sql.rows("metadata", n=row["n"]))[0][0]
    for task in await sql.dicts("last_task", n=row["n"]):
        row |= task
    return session_view(row)


async def sessions(
    sql: Sql, *, before: str | None = None, limit: int = 50, **filters: Unpack[Filters]
) -> tuple[list[Json], str | None]:
    """Sessions, the latest first, each with the cursor after it, and the cursor of the next page."""
    values = _values(before, limit, filters)
    rows = [] if values is None else await sql.dicts("sessions", metadata=1, **values)
    for row in rows:
        row["cursor"] = _cursor(row["updated_at"], row["n"])
    following = rows[limit - 1]["cursor"] if len(rows) > limit else None
    return [session_view(row, strict=False) for row in rows[:limit]], following


async def headers(
    sql: Sql, *, before: str | None = None, limit: int = 50, **filters: Unpack[Filters]
) -> tuple[list[Row], str | None]:
    """The same as rows, without metadata."""
    values = _values(before, limit, filters)
    rows = [] if values is None else await sql.rows("sessions", metadata=0, **values)
    following = _cursor(rows[limit - 1][UPDATED_AT], rows[limit - 1][N]) if len(rows) > limit else None
    return rows[:limit], following


def _values(before: str | None, limit: int, filters: Filters) -> Json | None:
    """The parameters of a list's statement. None if nothing can match."""
    check_limit(limit)
    before_at, before_n = LAST
    text = {name: str(filters.get(name, "")) for name in ("agent", "key", "text", "status")}
    text["state"] = filters.get("state", "present")
    if not all(map(is_text, text.values())):
        return None
    if before:
        at, _, number = before.partition("/")
        if not is_number(number) or not is_text(at):
            raise NotFound(f"{before!r} is not a page of this list")
        before_at, before_n = at, int(number)
    return {
        **text,
        "pattern": like(text["text"]),
        "empty": int(filters.get("empty", False)),
        "before_at": before_at,
        "before_n": before_n,
        "limit": limit + 1,
    }


def _cursor(updated_at: str, n: int) -> str:
    """The cursor of the page after a session."""
    return f"{updated_at}/{n}"


def like(text: str) -> str:
    """A LIKE pattern (escape `\\`) that matches `text` anywhere in a search column."""
    if not text:
        return ""
    return f"%{escape_like(text.casefold())}%"


def escape_like(text: str) -> str:
    """A text that LIKE (escape `\\`) takes literally."""
    for special in "\\%_":
        text = text.replace(special, "\\" + special)
    return text


async def log(sql: Sql, session: str, after: int = 0, limit: int = PAGE) -> list[Row]:
    """One page of the records after a seq, limited in number and size."""
    check_limit(limit)
    row = await session_row(sql, session)
    rows = await sql.rows("events", budget=PAGE_CHARACTERS, n=row["n"], after=after, limit=limit)
    return [
        _with_json(row) if BAD_TEXT in row[-1] or BAD_TEXT in (row[ORIGIN] or "") else row for row in rows
    ]


def _with_json(row: Row) -> Row:
    """A record whose text was decoded with replacements: readers need its body to be JSON."""
    origin, body = row[ORIGIN], row[-1]
    if not _is_json(body):
        text = "this record is damaged in the database"
        body = json.dumps({"text": text, "code": "record_damaged", "stored": body})
    return (*row[:ORIGIN], origin if origin and _is_json(origin) else None, *row[ORIGIN + 1 : -1], body)


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


async def task_log(sql: Sql, task: str, kinds: tuple[str, ...]) -> list[Row]:
    """The records of one task with these kinds, in order."""
    row = await session_row(sql, (await _task_row(sql, task))["session"])
    return await sql.rows("task_log", n=row["n"], task=task, kinds=f",{','.join(kinds)},")


async def asked(sql: Sql) -> list[Json]:
    """The permissions that wait for an answer, with session, task and time, in the order of tasks."""
    requests = [row for row in await sql.dicts("asked") if _decode_body(row)]
    by_task = itertools.groupby(requests, key=lambda row: row["task"])
    return [row for _, rows in by_task for row in unanswered((row, row["body"]) for row in rows)]


def _decode_body(row: Json) -> bool:
    """Decode the body in place. False if it is damaged, so that nobody can answer it."""
    try:
        row["body"] = json.loads(row["body"])
    except ValueError:
        return False
    return True


async def tokens(sql: Sql, session: str) -> list[Json]:
    """The lineage, oldest first."""
    row = await session_row(sql, session)
    return await sql.dicts("tokens", n=row["n"])


async def task(sql: Sql, task: str) -> Json:
    """One task."""
    return task_view(await _task_row(sql, task))


async def _task_row(sql: Sql, task: str) -> Json:
    rows = await sql.dicts("task", id=task) if ids.is_id(task, ids.TASK) else []
    if not rows:
        raise NotFound(f"there is no task {task!r}")
    return rows[0]


async def tasks(sql: Sql, *, session: str = "", status: str = "", limit: int = ALL) -> list[Json]:
    """Tasks in queue order; all of them, unless the caller sets a limit."""
    check_limit(limit)
    if not (is_text(session) and is_text(status)):
        return []
    rows = await sql.dicts("tasks", session=session, status=status, limit=limit)
    return [listed_task_view(row) for row in rows]


async def open_tasks(sql: Sql, session: str) -> list[tuple[str, str]]:
    """Id and status of the tasks of a session that have not ended, in queue order."""
    row = await session_row(sql, session)
    return [(str(task), str(status)) for task, status in await sql.rows("open_tasks", n=row["n"])]


async def first_task(sql: Sql, session: str) -> Json | None:
    """The first queued task of a session."""
    row = await session_row(sql, session)
    tasks = await sql.dicts("first_task", n=row["n"])
    return task_view(tasks[0]) if tasks else None


async def started_tasks(sql: Sql, session: str, *, but: str = "", limit: int = 1) -> list[Json]:
    """Tasks whose prompt reached, or may have reached, the agent; latest first, without `but`."""
    check_limit(limit)
    row = await session_row(sql, session)
    tasks = await sql.dicts("started_tasks", n=row["n"], but=but, limit=limit)
    return [task_view(task) for task in tasks]


async def first_started_task(sql: Sql, session: str) -> Json | None:
    """The first task of a session whose prompt reached, or may have reached, the agent."""
    row = await session_row(sql, session)
    tasks = await sql.dicts("first_started_task", n=row["n"])
    return task_view(tasks[0]) if tasks else None


async def started_count(sql: Sql, session: str) -> int:
    """How many tasks of a session reached, or may have reached, the agent."""
    row = await session_row(sql, session)
    return int((await sql.rows("started_count", n=row["n"]))[0][0])


async def has_unsuccessful(sql: Sql, session: str) -> bool:
    """Whether any task of a session was interrupted, cancelled or failed."""
    row = await session_row(sql, session)
    return bool(await sql.rows("unsuccessful_task", n=row["n"]))


async def redispatchable_tasks(
    sql: Sql,
    key: str = "",
    *,
    session: str = "",
    task: str = "",
    statuses: Sequence[str] = ("interrupted",),
) -> list[Json]:
    """The tasks with these statuses that can be retried, at most one per live session."""
    if not is_text(key):
        return []
    rows = await sql.dicts(
        "redispatchable_tasks", key=key, session=session, task=task, statuses=f",{','.join(statuses)},"
    )
    return [listed_task_view(row) for row in rows]


async def key_has_tasks(sql: Sql, key: str) -> bool:
    """Whether any session of a key, live or not, has a task."""
    return is_text(key) and bool(await sql.rows("key_task", key=key))


async def tasks_with_option(sql: Sql, key: str, text: str) -> list[Json]:
    """The tasks of a key's sessions whose options contain this text as JSON."""
    if not is_text(key):
        return []
    rows = await sql.dicts("delivered_tasks", key=key, pattern=f"%{escape_like(text)}%")
    return [listed_task_view(row) for row in rows]


async def turns(sql: Sql) -> list[Json]:
    """Running tasks and queued ones that may run, in queue order."""
    rows = await sql.dicts("turns")
    for row in rows:
        for name in ("owner", "options"):
            row[name] = None if row[name] is None else json.loads(row[name])
    return rows


async def unrecorded(sql: Sql, host: str, code: str) -> list[str]:
    """Live sessions of a host whose token comes from an unrecorded run and that have no notice `code`."""
    return [str(row[0]) for row in await sql.rows("unrecorded", host=host, said=f'%"{code}"%')]


async def last_tasks(sql: Sql, status: str, limit: int) -> list[Json]:
    """The tasks with this status that are the last of their live session; the last queued one first."""
    check_limit(limit)
    return [listed_task_view(row) for row in await sql.dicts("last_tasks", status=status, limit=limit)]


async def latest_tasks(
    sql: Sql, *, session: str = "", status: str = "", cwd: str = "", day: str = "", limit: int = 50
) -> list[Json]:
    """Tasks, the last queued one first."""
    check_limit(limit)
    if not all(is_text(wanted) for wanted in (session, status, cwd, day)):
        return []
    if session and not cwd:
        sessions = await sql.dicts("session", id=session) if ids.is_id(session, ids.SESSION) else []
        if not sessions:
            return []
        rows = await sql.dicts("session_tasks", n=sessions[0]["n"], status=status, day=day, limit=limit)
    else:
        rows = await sql.dicts("latest_tasks", session=session, status=status, cwd=cwd, day=day, limit=limit)
    return [listed_task_view(row) for row in rows]
