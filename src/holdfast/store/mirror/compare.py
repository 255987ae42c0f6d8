"""Is a mirror equal to its log, shorter, longer, or from which byte on does it differ?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, NamedTuple

from holdfast.model.event import Record
from holdfast.store.mirror import format
from holdfast.store.sql import Sql

PAGE = 500
PAGE_CHARACTERS = 8_000_000


class MirrorPosition(NamedTuple):
    """A position between two commits: after this record, at this byte of the mirror."""

    seq: int
    offset: int


START = MirrorPosition(0, 0)


class MirrorComparison(NamedTuple):
    """The result of comparing a mirror with its log."""

    result: Literal["equal", "short", "long", "differs"]
    matched: MirrorPosition  # up to which both are equal; `short` means that the file ends there


async def pages(sql: Sql, n: int, after: int = 0) -> AsyncIterator[list[Record]]:
    """The records of a log after a seq, page by page."""
    while True:
        rows = await sql.rows("log", budget=PAGE_CHARACTERS, n=n, after=after, limit=PAGE)
        if not rows:
            return
        yield [Record(*row) for row in rows]
        after = rows[-1][0]


async def compare(
    sql: Sql, n: int, session: str, path: str, start: MirrorPosition = START
) -> MirrorComparison:
    """Read both from a position up to which they are equal, until they differ."""
    matched = start
    crc = 0
    with open(path, "rb") as file:
        file.seek(start.offset)
        offset = start.offset
        async for page in pages(sql, n, start.seq):
            for record in page:
                expected, crc = format.write(session, record, crc)
                data = file.read(len(expected))
                if data != expected:
                    whole = not data and offset == matched.offset
                    return MirrorComparison("short" if whole else "differs", matched)
                offset += len(expected)
                if record.last:
                    matched = MirrorPosition(record.seq, offset)
        return MirrorComparison("long" if file.read(1) else "equal", matched)
