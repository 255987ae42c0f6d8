"""Records as lines of a mirror file, and back.

A line is a pure function of its record, so a mirror can be compared with its log byte by byte. The
last line of each commit has a checksum of the lines of the commit, which separates whole commits from
torn or altered ones without the database.
"""

from __future__ import annotations

from types import NoneType
from typing import NamedTuple
from zlib import crc32

from holdfast import timestamps
from holdfast.model.event import Record
from holdfast.model.json_codec import decode


class BadLine(ValueError):
    """A line that is not a record of the session; `reason` names the kind of damage."""

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(reason)


class ParsedLine(NamedTuple):
    """The record of a line, the checksum that it has for its commit, and the bytes that this covers."""

    record: Record
    crc: int | None
    covered: bytes


def write(session: str, record: Record, crc: int = 0) -> tuple[bytes, int]:
    """A record's line with its newline, and the checksum of its commit so far.

    `crc` is the result of the line before; the last line of a commit ends with the checksum and returns 0.
    """
    line = _text(session, record).encode()
    crc = crc32(line, crc)
    return (b'%b,"crc":"%08x"}\n' % (line, crc), 0) if record.last else (line + b"}\n", crc)


def read(session: str, line: bytes) -> ParsedLine:
    """Parse a line without its newline. BadLine if it is not a record."""
    try:
        value = decode(line)
    except (ValueError, RecursionError):
        raise BadLine("torn") from None
    if not isinstance(value, dict) or "session" not in value:
        raise BadLine("not_a_record")
    if value["session"] != session:
        raise BadLine("wrong_session")
    try:
        crc = int(value["crc"], 16) if "crc" in value else None
        record = Record(
            value["seq"],
            value["kind"],
            value["at"],
            value["task"],
            value["replayed"],
            None if value["origin"] is None else _between(line, b'"origin":', b',"spool":'),
            value["spool"],
            crc is not None,
            _body(line, crc is not None),
        )
        covered = _text(session, record).encode()
        end = b"}" if crc is None else b',"crc":"%08x"}' % crc
        numbers = type(record.seq) is int and type(record.spool) in (int, NoneType)
        ours = covered + end == line and numbers and timestamps.is_stamp(record.at)
    except (KeyError, TypeError, ValueError):
        ours = False
    if not ours:
        raise BadLine("not_a_record")  # this program did not write it
    return ParsedLine(record, crc, covered)


def _text(session: str, record: Record) -> str:
    seq, kind, at, task, replayed, origin, spool, _last, body = record
    owner = "null" if task is None else f'"{task}"'
    return (
        f'{{"session":"{session}","seq":{seq},"kind":"{kind}","at":"{at}",'
        f'"task":{owner},"replayed":{"true" if replayed else "false"},'
        f'"origin":{origin or "null"},"spool":{"null" if spool is None else spool},"body":{body}'
    )


def _body(line: bytes, has_crc: bool) -> str:
    # The exact bytes: decoding and encoding could change them. Quotes of a text inside the origin are
    # escaped, so the first of these marks is ours.
    start = line.index(b',"body":', line.index(b',"spool":')) + len(b',"body":')
    end = len(line) - (len(b',"crc":"00000000"}') if has_crc else 1)
    return line[start:end].decode()


def _between(line: bytes, left: bytes, right: bytes) -> str:
    start = line.index(left) + len(left)
    return line[start : line.index(right, start)].decode()
