"""Rows of sessions, tasks and events as plain JSON values.

Kept free of msgspec and asyncio: reading commands import this at every start.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from holdfast.errors import StoreUnreadable

if TYPE_CHECKING:
    from holdfast.store.sql import Row

Json = dict[str, Any]


def session_view(row: Json, strict: bool = True) -> Json:
    """The header of a session row. Not `strict`: a column that is not JSON becomes None, for a list."""
    view = dict(row)
    del view["n"]
    view["events"] = view.pop("seq")
    for name in ("worktree", "archive", "deletion", "link"):
        text = view[name]
        try:
            view[name] = None if text is None else json.loads(text)
        except (ValueError, TypeError):
            if strict:
                raise StoreUnreadable(f"the stored {name} of {view['id']} cannot be read") from None
            view[name] = None
    if "metadata" in view:
        view["metadata"], view["metadata_problem"] = read_metadata(view["metadata"])
    return view


def read_metadata(stored: bytes) -> tuple[Json | None, str | None]:
    """The metadata, or None and the problem with the stored text; never an invented empty object."""
    try:
        value = json.loads(stored.decode())
    except (ValueError, RecursionError) as problem:
        return None, f"not JSON: {problem}"
    if not isinstance(value, dict):
        return None, f"a JSON {type(value).__name__}, not an object"
    return value, None


def task_view(row: Json) -> Json:
    """The JSON view of a task row."""
    view = dict(row)
    for name in ("prompt", "options", "owner", "outcome", "waiting_for"):
        text = view[name]
        view[name] = None if text is None else json.loads(text)
    return view


def listed_task_view(row: Json) -> Json:
    """The same for a list: a damaged column must not hide the other tasks."""
    try:
        return task_view(row)
    except (ValueError, TypeError):
        view = dict(row)
        for name, default in (
            ("prompt", str(row["prompt"])),
            ("options", {}),
            ("owner", None),
            ("outcome", None),
            ("waiting_for", None),
        ):
            try:
                view[name] = None if row[name] is None else json.loads(row[name])
            except (ValueError, TypeError):
                view[name] = default
        return view


def event_json(row: Row) -> str:
    """A log row as one line of the wire format, with its body unchanged."""
    seq, kind, at, task, replayed, origin, _spool, _last, body = row
    return (
        f'{{"seq":{seq},"kind":"{kind}","body":{body},"at":"{at}",'
        f'"task":{_quoted(task)},"replayed":{"true" if replayed else "false"},"origin":{origin or "null"}}}'
    )


def _quoted(text: str | None) -> str:
    return "null" if text is None else f'"{text}"'
