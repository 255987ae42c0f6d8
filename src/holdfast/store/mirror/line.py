"""Records as lines of a mirror file, and back.

A line is a pure function of its record, so the database knows how long every mirror must be without
looking, and the two can be compared byte by byte. The last line of each commit carries a checksum of
the commit's lines: without the database it still tells whole commits from torn or altered ones.
"""

from __future__ import annotations

import json
from zlib import crc32

from holdfast import clock
from holdfast.model.record import Record


class BadLine(ValueError):
    """A line that is no record of that session; `reason` is a word for it."""

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(reason)


def write(session: str, record: Record, crc: int = 0) -> tuple[bytes, int]:
    """A record's line with its newline, and the checksum of its commit so far.

    `crc` is what the line before gave; a commit's last line ends with the checksum and gives 0.
    """
    seq, kind, at, task, replayed, origin, spool, last, body = record
    owner = "null" if task is None else f'"{task}"'
    line = (
        f'{{"session":"{session}","seq":{seq},"kind":"{kind}","at":"{at}",'
        f'"task":{owner},"replayed":{"true" if replayed else "false"},'
        f'"origin":{origin or "null"},"spool":{"null" if spool is None else spool},"body":{body}'
    ).encode()
    crc = crc32(line, crc)
    return (b'%b,"crc":"%08x"}\n' % (line, crc), 0) if last else (line + b"}\n", crc)


def read(session: str, line: bytes, crc: int = 0) -> tuple[Record, int]:
    """The record of a line without its newline and the checksum so far; BadLine where there is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise BadLine("torn") from None
    if not isinstance(value, dict):
        raise BadLine("not_a_record")
    if value.get("session") != session:
        raise BadLine("wrong_session")
    try:
        last = "crc" in value
        origin = value["origin"]
        record = Record(
            value["seq"],
            value["kind"],
            value["at"],
            value["task"],
            value["replayed"],
            None if origin is None else _between(line, b'"origin":', b',"spool":'),
            value["spool"],
            last,
            _body(line, last),
        )
    except (KeyError, TypeError, ValueError):
        raise BadLine("not_a_record") from None
    if not clock.is_stamp(record.at):
        raise BadLine("not_a_record")
    again, crc = write(session, record, crc)
    if again[:-1] != line:
        raise BadLine("altered")
    return record, crc


def _body(line: bytes, has_crc: bool) -> str:
    # Its very bytes: to decode and encode it again could change them. The quotes of a text inside
    # the origin are escaped, so the first of these marks is ours.
    start = line.index(b',"body":', line.index(b',"spool":')) + len(b',"body":')
    end = len(line) - (len(b',"crc":"00000000"}') if has_crc else 1)
    return line[start:end].decode()


def _between(line: bytes, left: bytes, right: bytes) -> str:
    start = line.index(left) + len(left)
    return line[start : line.index(right, start)].decode()
