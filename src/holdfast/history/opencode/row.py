"""Rows of OpenCode's database as they are read: whatever a column holds, never an exception."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.drive import line as wire
from holdfast.history import when
from holdfast.model.event import NewEvent

LONGEST_NAME = 1000  # characters of a title or a path


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `session`, as far as it matters."""

    id: str
    directory: str | None = None
    title: str | None = None
    parent: str | None = None
    updated_at: str | None = None
    reverted: str | None = None  # the message from which on the user took everything back


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A message or a part: what its JSON says, or a notice of what stands there instead."""

    id: str
    made: Any = None  # milliseconds, as the column has them
    changed: Any = None
    data: dict[str, Any] = {}
    odd: NewEvent | None = None

    @property
    def created(self) -> str | None:
        """When it was first written."""
        return when.of_millis(self.made)

    @property
    def updated(self) -> str | None:
        """When it was last written."""
        return when.of_millis(self.changed)


def session(row: tuple[Any, ...]) -> Session:
    """Of the columns id, directory, title, parent_id, time_updated, revert."""
    id, directory, title, parent, updated, revert = row
    told = wire.parse(revert) if isinstance(revert, bytes) else {}
    return Session(
        id=text(id),
        directory=name(directory),
        title=name(title),
        parent=name(parent),
        updated_at=when.of_millis(updated),
        reverted=wire.word(told, "messageID") or None if isinstance(told, dict) else None,
    )


def row(id: Any, created: Any, updated: Any, size: Any, data: Any) -> Row:
    """Of columns of `message` or `part`; `data` is missing where it is larger than we take."""
    odd: NewEvent | None = None
    value: dict[str, Any] | NewEvent
    if isinstance(data, bytes):
        value = wire.parse(data)
    else:
        value = wire.notice("too_long", f"a record of {size} bytes was left in the database", bytes=size)
    if isinstance(value, NewEvent):
        odd, value = value, {}
    return Row(id=text(id), made=created, changed=updated, data=value, odd=odd)


def lost(table: str, number: int, problem: Exception | str) -> Row:
    """What stands for a row that cannot be read."""
    why = " ".join(str(problem).split())
    return Row(id="", odd=wire.notice("store_damaged", f"a row of {table} cannot be read: {why}", row=number))


def text(value: Any) -> str:
    """A column that should be text, as bytes or as SQLite gave it."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "" if value is None else str(value)


def name(value: Any) -> str | None:
    """A short text without anything that a header cannot hold."""
    told = text(value).replace("\0", "")[:LONGEST_NAME]
    return told or None
