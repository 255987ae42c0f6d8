"""Which records does a mirror file hold, read without the database?

Everything readable before and after damaged bytes is read. A notice with the damaged bytes replaces
each unreadable record, so the log keeps its numbers. Between two commits that checksums prove, only
lines with a seq between theirs count.
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

KEPT_BYTES = 65_536  # of a damaged line that the log keeps; quarantine has all of it
WIDEST_GAP = 100_000  # records missing in a row; a higher seq counts as damaged
SHORTEST_LINE = 100  # bytes; each line has a session id and a time
CODE_LOST = "record_lost"


class MirrorSegment(NamedTuple):
    """Consecutive records, up to the end of a commit."""

    records: list[Record]
    damage: str | None  # the kind of damage; None: exactly what was written
    offset: int  # where the segment starts in the file
    proven_count: int  # how many records at its end the checksum of their commit proves
    lost: frozenset[int] = frozenset()  # records that are placeholders for unreadable ones

    @property
    def proven(self) -> list[Record]:
        """The records that are exactly what was written."""
        return self.records[len(self.records) - self.proven_count :]


class _Line(NamedTuple):
    raw: bytes
    record: Record | None
    bad: str | None  # the kind of damage, if there is no record


class _Commit(NamedTuple):
    """Lines up to the end of a commit, an unreadable line or the end of the file."""

    lines: list[_Line]
    proven: bool  # all are consecutive records, and the checksum matches
    ends: bool
    offset: int


def read(session: str, path: str, offset: int = 0, after: int = 0) -> Iterator[MirrorSegment]:
    """The segments of a mirror from byte `offset`, which follows record `after`.

    The last segment may have no records: then the file ends in bytes that are not a whole commit.
    """
    expected = after + 1
    damaged: list[_Commit] = []  # until a proven commit shows where they end
    for commit in _commits(session, path, offset):
        records = _records(commit.lines)
        first = records[0].seq if records else 0
        if not commit.proven or not expected <= first <= expected + WIDEST_GAP:
            damaged.append(commit)
            continue
        if damaged or first > expected:
            yield _damaged_segment(damaged, expected, first, commit)
        else:
            yield MirrorSegment(records, None, commit.offset, len(records))
        damaged = []
        expected = records[-1].seq + 1
    if damaged:
        yield from _tail(damaged, expected)


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


def _damaged_segment(damaged: list[_Commit], expected: int, first: int, proven: _Commit) -> MirrorSegment:
    """The readable records of damaged commits, and the proven commit after them."""
    records, lost = _fill([line for commit in damaged for line in commit.lines], expected, first)
    after = _records(proven.lines)
    records = [r if r.at else r._replace(at=after[0].at) for r in records]
    start = damaged[0].offset if damaged else proven.offset
    return MirrorSegment([*records, *after], _damage(damaged), start, len(after), lost)


def _tail(damaged: list[_Commit], expected: int) -> Iterator[MirrorSegment]:
    """The readable records of damaged commits at the end of the file.

    A mirror gets only what is committed, so the lines of a commit that was cut are records.
    """
    lines = [line for commit in damaged for line in commit.lines]
    records, lost = _fill(lines, expected, _tail_end(lines, expected))
    while records and records[-1].seq in lost:
        records.pop()
    if not records:
        yield MirrorSegment([], _damage(damaged), damaged[0].offset, 0)
        return
    used = next(i for i, line in enumerate(lines) if line.record == records[-1]) + 1
    if not records[-1].last:
        raw = b"".join(line.raw for line in lines[used:])
        records.append(placeholder(records[-1].seq + 1, raw)._replace(last=True))
        lost |= {records[-1].seq}
        used = len(lines)
    at = next(record.at for record in reversed(records) if record.at)
    records = [r if r.at else r._replace(at=at) for r in records]
    yield MirrorSegment(records, _damage(damaged), damaged[0].offset, 0, lost & {r.seq for r in records})
    if used < len(lines):
        offset = damaged[0].offset + sum(len(line.raw) for line in lines[:used])
        yield MirrorSegment([], lines[used].bad or "repeated", offset, 0)


def _tail_end(lines: list[_Line], expected: int) -> int:
    """The first seq that is too high for the end of the file.

    The unreadable bytes limit how many records can be missing. A higher seq counts only next to its
    neighbor: alone it may be a damaged number.
    """
    seqs = {line.record.seq for line in lines if is_sound(line.record) and line.record}
    end = expected + len(lines) + sum(len(line.raw) for line in lines if line.record is None) // SHORTEST_LINE
    joined = [seq for seq in seqs if seq >= end and {seq - 1, seq + 1} & seqs]
    near = [seq for seq in (*seqs, *joined) if seq < (end if seq not in joined else end + WIDEST_GAP)]
    return max(near, default=expected - 1) + 1


def _fill(lines: list[_Line], expected: int, end: int) -> tuple[list[Record], frozenset[int]]:
    """A record for every seq from `expected` to before `end`, and the seqs of the placeholders."""
    usable = [line for line in lines if line.record and expected <= line.record.seq < end]
    chosen = iter(_rising([line for line in usable if is_sound(line.record)]))
    wanted = next(chosen, None)
    records: list[Record] = []
    lost: set[int] = set()
    raw: list[bytes] = []

    def add_placeholders(end: int) -> None:
        for seq in range(expected + len(records), end):
            lost.add(seq)
            records.append(placeholder(seq, b"".join(raw)))
            raw.clear()
        raw.clear()

    for line in lines:
        if line is wanted and line.record is not None:
            add_placeholders(line.record.seq)
            records.append(line.record)
            wanted = next(chosen, None)
        else:
            raw.append(line.raw)
    add_placeholders(end)
    return records, frozenset(lost)


def _rising(lines: list[_Line]) -> list[_Line]:
    """The longest choice of lines whose seqs rise, in file order."""
    tails: list[int] = []
    indexes: list[int] = []  # of each tail in `lines`
    before: list[int | None] = []
    for i, line in enumerate(lines):
        assert line.record is not None
        at = bisect_left(tails, line.record.seq)
        tails[at : at + 1] = [line.record.seq]
        indexes[at : at + 1] = [i]
        before.append(indexes[at - 1] if at else None)
    chosen: list[_Line] = []
    index = indexes[-1] if indexes else None
    while index is not None:
        chosen.append(lines[index])
        index = before[index]
    return chosen[::-1]


def _records(lines: Iterable[_Line]) -> list[Record]:
    return [line.record for line in lines if line.record is not None]


def _damage(commits: list[_Commit]) -> str:
    """The kind of damage of these commits."""
    if not commits:
        return "gap"
    lines = [line for commit in commits for line in commit.lines]
    for line in lines:
        if line.bad is not None:
            return line.bad
    if not commits[-1].ends:
        return "torn"
    return "repeated" if all(commit.proven for commit in commits) else "altered"


def is_sound(record: Record | None) -> bool:
    """Whether every reader can decode a record that no checksum proves."""
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


def placeholder(seq: int, raw: bytes = b"", at: str = "") -> Record:
    """A notice that replaces an unreadable record, with the bytes that are left of it."""
    body = {
        "text": "this record was damaged, and no other copy has it",
        "code": CODE_LOST,
        "bytes": len(raw),
        "base64": base64.b64encode(raw[:KEPT_BYTES]).decode(),
    }
    return Record(seq, "notice", at, None, False, None, None, False, encode(body).decode())
