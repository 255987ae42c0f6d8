"""A mirror file read on its own: whole commits, and what lies damaged between them.

What can be read before and after a damage is read. A record that cannot becomes a `notice` in its
place that holds its bytes, so that the log keeps its numbers.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from holdfast.model.record import Record
from holdfast.model.text import encode
from holdfast.store.mirror import line

KEPT_BYTES = 65_536  # of a damaged line, in the log; all of it is in quarantine
CODE_LOST = "record_lost"


class Piece(NamedTuple):
    """Some records in a row."""

    records: list[Record]
    damage: str | None  # None: exactly what was written; else a word for what is wrong
    offset: int  # where the piece begins in the file


def read(session: str, path: str, offset: int = 0, after: int = 0) -> Iterator[Piece]:
    """The pieces of a mirror from a byte on, the records before it being known up to `after`.

    The last piece may have no records: then the file ends in bytes that are no whole commit.
    """
    expected = after + 1
    with open(path, "rb") as file:
        file.seek(offset)
        start, crc = offset, 0
        records: list[Record] = []
        lost: list[bytes] = []
        damage: str | None = None
        for raw in file:
            offset += len(raw)
            try:
                if not raw.endswith(b"\n"):
                    raise line.BadLine("torn")
                parsed = line.read(session, raw[:-1])
            except line.BadLine as bad:
                damage = damage or bad.reason
                lost.append(raw)
                continue
            record = parsed.record
            if record.seq < expected:
                damage = damage or "repeated"
                lost.append(raw)
                continue
            if record.seq > expected or lost:
                damage = damage or "gap"
                if record.seq > expected:
                    records += _placeholders(expected, record, lost)
                lost = []
            records.append(record)
            expected = record.seq + 1
            crc = crc32(parsed.covered, crc)
            if record.last:
                if parsed.crc != crc:
                    damage = damage or "altered"
                yield Piece(records, damage, start)
                start, records, lost, damage, crc = offset, [], [], None, 0
        if records or lost:
            yield Piece([], damage or "torn", start)


def _placeholders(expected: int, found: Record, lost: list[bytes]) -> Iterator[Record]:
    raw = b"".join(lost)
    body = {
        "text": "this record was damaged in its mirror and is nowhere else",
        "code": CODE_LOST,
        "bytes": len(raw),
        "base64": base64.b64encode(raw[:KEPT_BYTES]).decode(),
    }
    for seq in range(expected, found.seq):
        yield Record(seq, "notice", found.at, None, False, None, None, False, encode(body).decode())
        body = {**body, "bytes": 0, "base64": ""}
