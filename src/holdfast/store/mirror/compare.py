"""A mirror beside its log: the same, shorter, longer, or from which byte on it differs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, NamedTuple

from holdfast.model.event import Record
from holdfast.store.mirror import format
from holdfast.store.sql import Sql

PAGE = 500
PAGE_CHARACTERS = 8_000_000


class MirrorPosition(NamedTuple):
    """A place where mirror and log are level: up to this record, this byte, between two commits."""

    seq: int
    offset: int


START = MirrorPosition(0, 0)


class MirrorComparison(NamedTuple):
    """How a mirror stands to its log."""

    result: Literal["level", "short", "long", "differs"]
    level: MirrorPosition  # up to where both are alike; `short` means that the file ends there


async def pages(sql: Sql, n: int, after: int = 0) -> AsyncIterator[list[Record]]:
    """All records of a log after a seq, page by page."""
    while True:
        rows = await sql.rows("log", budget=PAGE_CHARACTERS, n=n, after=after, limit=PAGE)
        if not rows:
            return
        yield [Record(*row) for row in rows]
        after = rows[-1][0]


async def compare(
    sql: Sql, n: int, session: str, path: str, start: MirrorPosition = START
) -> MirrorComparison:
    """Read both from a level place on until they part."""
    level = start
    crc = 0
    with open(path, "rb") as file:
        file.seek(start.offset)
        offset = start.offset
        async for page in pages(sql, n, start.seq):
            for record in page:
                expected, crc = format.write(session, record, crc)
                found = file.read(len(expected))
                if found != expected:
                    whole = not found and offset == level.offset
                    return MirrorComparison("short" if whole else "differs", level)
                offset += len(expected)
                if record.last:
                    level = MirrorPosition(record.seq, offset)
        return MirrorComparison("long" if file.read(1) else "level", level)
