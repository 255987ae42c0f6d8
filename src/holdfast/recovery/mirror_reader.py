"""A mirror file read on its own: whole commits, and what lies damaged between them.

What can be read before and after a damage is read. A record that cannot becomes a `notice` in its
place that holds its bytes, so that the log keeps its numbers. What a checksum proves is the frame:
between two proven commits only those lines count that fit there.
"""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

import msgspec

from holdfast.model import changes as c
from holdfast.model.event import Origin, Record
from holdfast.model.json_codec import decode, decode_as, encode
from holdfast.store.mirror import format

KEPT_BYTES = 65_536  # of a damaged line, in the log; all of it is in quarantine
WIDEST_GAP = 100_000  # records missing in a row; a seq further on is taken for a damaged one
SHORTEST_LINE = 100  # bytes; a session's id and a time are in each
CODE_LOST = "record_lost"


class Piece(NamedTuple):
    """Some records in a row, up to the end of a commit."""

    records: list[Record]
    damage: str | None  # None: exactly what was written; else a word for what is wrong
    offset: int  # where the piece begins in the file
    sure: int  # so many at its end are vouched for by their commit's checksum
    lost: frozenset[int] = frozenset()  # records of it that only stand in for what cannot be read

    @property
    def proven(self) -> list[Record]:
        """The records that are exactly what was written."""
        return self.records[len(self.records) - self.sure :]


class _Line(NamedTuple):
    raw: bytes
    record: Record | None
    bad: str | None  # why there is no record


class _Commit(NamedTuple):
    """Lines up to one that ends a commit, or up to one that cannot be read, or the file's end."""

    lines: list[_Line]
    proven: bool  # all are records in a row, and the checksum fits
    ends: bool
    offset: int


def read(session: str, path: str, offset: int = 0, after: int = 0) -> Iterator[Piece]:
    """The pieces of a mirror from a byte on, the records before it being known up to `after`.

    The last piece may have no records: then the file ends in bytes that are no whole commit.
    """
    expected = after + 1
    held: list[_Commit] = []  # damaged ones, until a proven one says where they end
    for commit in _commits(session, path, offset):
        records = _records(commit.lines)
        first = records[0].seq if records else 0
        if not commit.proven or not expected <= first <= expected + WIDEST_GAP:
            held.append(commit)
            continue
        if held or first > expected:
            yield _mended(held, expected, first, commit)
        else:
            yield Piece(records, None, commit.offset, len(records))
        held = []
        expected = records[-1].seq + 1
    if held:
        yield from _tail(held, expected)


def _commits(session: str, path: str, offset: int) -> Iterator[_Commit]:
    lines: list[_Line] = []
    crc, start, in_row = 0, offset, True
    with open(path, "rb") as file:
        file.seek(offset)
        for raw in file:
            offset += len(raw)
            record, bad, proven = None, None, False
            try:
                if not raw.endswith(b"\n"):
                    raise format.BadLine("torn")
                record, claimed, covered = format.read(session, raw[:-1])
            except format.BadLine as problem:
                bad = problem.reason
            else:
                before = lines[-1].record if lines else None
                in_row = in_row and (before is None or record.seq == before.seq + 1)
                crc = crc32(covered, crc)
                proven = in_row and claimed == crc
            lines.append(_Line(raw, record, bad))
            if record is None or record.last:
                yield _Commit(lines, proven, record is not None, start)
                lines, crc, start, in_row = [], 0, offset, True
    if lines:
        yield _Commit(lines, False, False, start)


def _mended(held: list[_Commit], expected: int, first: int, proven: _Commit) -> Piece:
    """What is left of damaged commits, and the proven one behind them."""
    records, lost = _fill([text for commit in held for text in commit.lines], expected, first)
    sure = _records(proven.lines)
    records = [r if r.at else r._replace(at=sure[0].at) for r in records]
    start = held[0].offset if held else proven.offset
    return Piece([*records, *sure], _damage(held), start, len(sure), lost)


def _tail(held: list[_Commit], expected: int) -> Iterator[Piece]:
    """Damaged commits that no proven one follows: what is readable of them, the last one with an end.

    Only what was committed is mirrored, so the lines of a commit that was cut are records.
    """
    lines = [text for commit in held for text in commit.lines]
    records, lost = _fill(lines, expected, _tail_end(lines, expected))
    while records and records[-1].seq in lost:
        records.pop()
    if not records:
        yield Piece([], _damage(held), held[0].offset, 0)
        return
    used = next(i for i, text in enumerate(lines) if text.record == records[-1]) + 1
    if not records[-1].last:
        raw = b"".join(text.raw for text in lines[used:])
        records.append(stand_in(records[-1].seq + 1, raw)._replace(last=True))
        lost |= {records[-1].seq}
        used = len(lines)
    at = next(record.at for record in reversed(records) if record.at)
    records = [r if r.at else r._replace(at=at) for r in records]
    yield Piece(records, _damage(held), held[0].offset, 0, lost & {r.seq for r in records})
    if used < len(lines):
        offset = held[0].offset + sum(len(text.raw) for text in lines[:used])
        yield Piece([], lines[used].bad or "repeated", offset, 0)


def _tail_end(lines: list[_Line], expected: int) -> int:
    """The seq that is too high for a tail.

    As many records may be missing as the bytes that cannot be read have room for. A higher seq counts only
    beside its neighbor: alone it may be a damaged number.
    """
    seqs = {text.record.seq for text in lines if is_sound(text.record) and text.record}
    end = expected + len(lines) + sum(len(text.raw) for text in lines if text.record is None) // SHORTEST_LINE
    joined = [seq for seq in seqs if seq >= end and {seq - 1, seq + 1} & seqs]
    near = [seq for seq in (*seqs, *joined) if seq < (end if seq not in joined else end + WIDEST_GAP)]
    return max(near, default=expected - 1) + 1


def _fill(lines: list[_Line], expected: int, end: int) -> tuple[list[Record], frozenset[int]]:
    """Records for every seq from `expected` to before `end`; those that had to be made up."""
    usable = [text for text in lines if text.record and expected <= text.record.seq < end]
    chosen = iter(_rising([text for text in usable if is_sound(text.record)]))
    wanted = next(chosen, None)
    records: list[Record] = []
    lost: set[int] = set()
    raw: list[bytes] = []

    def stand_in_until(end: int) -> None:
        for seq in range(expected + len(records), end):
            lost.add(seq)
            records.append(stand_in(seq, b"".join(raw)))
            raw.clear()
        raw.clear()

    for text in lines:
        if text is wanted and text.record is not None:
            stand_in_until(text.record.seq)
            records.append(text.record)
            wanted = next(chosen, None)
        else:
            raw.append(text.raw)
    stand_in_until(end)
    return records, frozenset(lost)


def _rising(lines: list[_Line]) -> list[_Line]:
    """As many of the lines as possible whose seqs rise, in their order in the file."""
    tails: list[int] = []
    places: list[int] = []  # of each tail in `lines`
    before: list[int | None] = []
    for i, text in enumerate(lines):
        assert text.record is not None
        at = bisect_left(tails, text.record.seq)
        tails[at : at + 1] = [text.record.seq]
        places[at : at + 1] = [i]
        before.append(places[at - 1] if at else None)
    chosen: list[_Line] = []
    place = places[-1] if places else None
    while place is not None:
        chosen.append(lines[place])
        place = before[place]
    return chosen[::-1]


def _records(lines: Iterable[_Line]) -> list[Record]:
    return [text.record for text in lines if text.record is not None]


def _damage(held: list[_Commit]) -> str:
    """A word for what is wrong with these commits."""
    if not held:
        return "gap"
    lines = [text for commit in held for text in commit.lines]
    for text in lines:
        if text.bad is not None:
            return text.bad
    if not held[-1].ends:
        return "torn"
    return "repeated" if all(commit.proven for commit in held) else "altered"


def is_sound(record: Record | None) -> bool:
    """Whether a record that no checksum vouches for can be read by everyone who will."""
    if record is None:
        return False
    try:
        if record.kind in c.SHAPES:
            decode_as(record.body, c.SHAPES[record.kind])
        if record.origin is not None:
            decode_as(record.origin, Origin)
        return isinstance(decode(record.body), dict) and type(record.spool) in (int, type(None))
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return False


def stand_in(seq: int, raw: bytes = b"", at: str = "") -> Record:
    """A notice in the place of a record that cannot be read, with what is left of its bytes."""
    body = {
        "text": "this record was damaged and is in no other copy",
        "code": CODE_LOST,
        "bytes": len(raw),
        "base64": base64.b64encode(raw[:KEPT_BYTES]).decode(),
    }
    return Record(seq, "notice", at, None, False, None, None, False, encode(body).decode())
