"""One log from two damaged copies: for each record the copy that is provably right, else the readable one.

A mirror's checksums prove its records; nothing in a damaged database proves one. What neither has becomes
a stand-in, so that the records keep their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.model import changes as c
from holdfast.model.event import Origin, Record
from holdfast.model.json_codec import decode_as
from holdfast.recovery.mirror_reader import WIDEST_GAP, Piece, is_sound, stand_in

UNKNOWN_AGENT = "unknown"


class MirrorContent(NamedTuple):
    """The records of a mirror by seq: exactly as written, only readable, and its stand-ins."""

    proven: dict[int, Record]
    readable: dict[int, Record]
    lost: dict[int, Record]


class MergedLog(NamedTuple):
    """A log in a row, its last record the end of a commit."""

    records: list[Record]
    lost: list[int]  # those of them that are stand-ins


def content(pieces: Iterable[Piece]) -> MirrorContent:
    """What the pieces of a mirror hold."""
    found = MirrorContent({}, {}, {})
    for piece in pieces:
        sure = {record.seq for record in piece.proven}
        for record in piece.records:
            kind = found.lost if record.seq in piece.lost else found.readable
            (found.proven if record.seq in sure else kind)[record.seq] = record
    return found


def merge(
    mirror: MirrorContent,
    database: Mapping[int, Record],
    raw: Mapping[int, bytes] | None = None,
    head: int = 0,
) -> MergedLog:
    """Every record that is readable in either copy, from the mirror's first one on (else from 1).

    `raw`: bytes of records that the database has and that are no text; `head`: how many records there
    were, where that is known.
    """
    raw = raw or {}
    if (alike := _of_the_same_history(mirror, database)) is not database:
        database, raw, head = alike, {}, 0  # what the database counts is of another history, too
    first = min(mirror.proven, default=1)
    first = first if first <= min([*mirror.readable, *mirror.lost, *database], default=first) else 1
    real = {**mirror.readable, **database, **mirror.proven}
    real = {seq: record for seq, record in real.items() if seq >= first}
    top = max(real, default=0)
    known = [seq for seq in (*raw, *mirror.lost, head) if top < seq <= top + WIDEST_GAP]
    end = max(known, default=top)
    if not end:
        return MergedLog([], [])
    if end == top and not real[top].last:
        end = top + 1  # a commit had at least one more
    records, lost = [], []
    for seq in range(first, end + 1):
        record = real.get(seq)
        if record is None:
            lost.append(seq)
            record = mirror.lost.get(seq) if seq not in raw else None
            record = record or stand_in(seq, raw.get(seq, b""))
        records.append(record)
    records[-1] = records[-1]._replace(last=True)
    return MergedLog(_with_times(records, set(lost)), lost)


def _of_the_same_history(mirror: MirrorContent, database: Mapping[int, Record]) -> Mapping[int, Record]:
    """The database's records up to where it tells another story than the mirror's proven ones."""
    both = sorted(set(mirror.proven) & set(database))
    if not both or is_same(mirror.proven[both[-1]], database[both[-1]]):
        return database
    alike = [seq for seq in both if is_same(mirror.proven[seq], database[seq])]
    last = max(alike, default=0)
    return {seq: record for seq, record in database.items() if seq <= last}


def is_same(one: Record, other: Record) -> bool:
    """Whether two copies are of one record, though one may be altered: in its time, or in anything else.

    Two histories do not share a time, which is told in microseconds.
    """
    return one.seq == other.seq and (one.at == other.at or one._replace(at=other.at) == other)


class Difference(NamedTuple):
    """A record that a checksum proves in the mirror and that the database has otherwise, or not at all."""

    stored: Record | None
    proven: Record


def altered(differences: Mapping[int, Difference], agreed: int, sealed: int) -> list[int]:
    """Those that were altered in the database; the others belong to another history.

    An old copy of a database may have continued with a history of its own, as valid as the mirror's. It is
    the same history where a later record agrees (`agreed` is the last that does), where the two were seen
    to be alike before (`sealed`), and where the time of a record is the same.
    """
    return [
        seq
        for seq, (stored, proven) in differences.items()
        if not is_sound(stored) or stored is None or seq < agreed or seq <= sealed or is_same(stored, proven)
    ]


def _with_times(records: Sequence[Record], lost: set[int]) -> list[Record]:
    """Stand-ins get the time of the next real record, else of the one before."""
    at = next((record.at for record in reversed(records) if record.seq not in lost), records[-1].at)
    timed: list[Record] = []
    for record in reversed(records):
        at = at if record.seq in lost else record.at
        timed.append(record if record.at else record._replace(at=at))
    return timed[::-1]


def with_beginning(records: Sequence[Record], known: c.Create | None = None) -> list[Record]:
    """A log whose creation is lost gets one that says so: of what is known of it, else of its agent only."""
    if not records or records[0].seq != 1 or records[0].kind == "session":
        return list(records)
    text = "the record of this session's creation was lost"
    was = msgspec.json.decode(records[0].body)
    known = known or c.Create(agent=_agent(records))
    change = msgspec.structs.replace(known, metadata={"record_lost": {"text": text, "was": was}})
    body = msgspec.json.encode(change).decode()
    return [records[0]._replace(kind="session", body=body), *records[1:]]


def _agent(records: Iterable[Record]) -> str:
    for record in records:
        if record.kind == "token":
            change = decode_as(record.body, c.SHAPES["token"])
            return str(change.agent)
        if record.origin is not None:
            return decode_as(record.origin, Origin).agent
    return UNKNOWN_AGENT


def ranges(seqs: Iterable[int]) -> list[str]:
    """Seqs in words: "3", "5-9"."""
    found: list[list[int]] = []
    for seq in sorted(seqs):
        if found and found[-1][1] == seq - 1:
            found[-1][1] = seq
        else:
            found.append([seq, seq])
    return [str(first) if first == last else f"{first}-{last}" for first, last in found]


def lost_in_words(lost: Sequence[int]) -> str:
    """For the end of a sentence; nothing if nothing is lost."""
    if not lost:
        return ""
    some = ranges(lost)
    shown = ", ".join(some[:5]) + (", …" if len(some) > 5 else "")
    return f"; {counted(len(lost))} could not be read in any copy: {shown}"


def counted(records: int) -> str:
    """A number of records."""
    return f"{records} record" if records == 1 else f"{records} records"
