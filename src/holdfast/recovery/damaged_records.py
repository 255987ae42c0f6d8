"""Which rows of a log are not records, and which notices replace them?

A row can be damaged in a database that passes `pragma integrity_check`, which does not check texts.
Such a row breaks every reader of its session and every mirror that is written from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from holdfast import timestamps
from holdfast.model.changes import Create
from holdfast.model.event import Record
from holdfast.model.json_codec import encode
from holdfast.model.session import Session
from holdfast.recovery.merge import with_creation
from holdfast.recovery.mirror_reader import is_sound, placeholder
from holdfast.store.mirror import format
from holdfast.store.mirror.compare import pages
from holdfast.store.sql import Sql


class DamagedRecord(NamedTuple):
    """A row that is not a record, and the time of the record before it."""

    row: Record
    time_before: str | None


def is_record(session: str, row: Record) -> bool:
    """Whether Holdfast can have written this row: its mirror line reads back as the same record."""
    try:
        data, _ = format.write(session, row)
        return format.read(session, data[:-1]).record == row and is_sound(row)
    except (format.BadLine, TypeError, ValueError):
        return False


async def damaged_records(sql: Sql, n: int, session: str) -> list[DamagedRecord]:
    """The damaged rows of one log, in order."""
    damaged = []
    time_before = None
    async for page in pages(sql, n):
        for row in page:
            if is_record(session, row):
                time_before = row.at
            else:
                damaged.append(DamagedRecord(row, time_before))
    return damaged


def replacements(damaged: Iterable[DamagedRecord], header: Session) -> list[Record]:
    """One notice for each damaged row, with its bytes; for the first record, a creation from the header."""
    notices = []
    for row, time_before in damaged:
        at = row.at if timestamps.is_stamp(row.at) else time_before or header.created_at
        notices.append(placeholder(row.seq, raw_bytes([row]), at)._replace(last=bool(row.last)))
    created = Create(agent=header.agent, key=header.key, cwd=header.cwd, host=header.host, title=header.title)
    return with_creation(notices, created)


def raw_bytes(rows: Iterable[Record]) -> bytes:
    """Damaged rows as JSON, one line each, for quarantine."""
    return b"".join(encode(row._asdict()) + b"\n" for row in rows)
