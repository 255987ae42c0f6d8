"""How do two damaged copies of a log become one? A proven record wins over a readable one.

A mirror's checksums prove its records; nothing in a damaged database proves one. A placeholder replaces
each record that neither copy has, so the records keep their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.model import changes as c
from holdfast.model.event import Origin, Record
from holdfast.model.json_codec import decode_as
from holdfast.recovery.mirror_reader import WIDEST_GAP, MirrorSegment, is_sound, placeholder

UNKNOWN_AGENT = "unknown"


class MirrorContent(NamedTuple):
    """The records of a mirror by seq: proven to be as written, only readable, and placeholders."""

    proven: dict[int, Record]
    readable: dict[int, Record]
    lost: dict[int, Record]


class MergedLog(NamedTuple):
    """A log without gaps that ends with a whole commit."""

    records: list[Record]
    lost: list[int]  # the seqs of the placeholders


def mirror_content(segments: Iterable[MirrorSegment]) -> MirrorContent:
    """Sort the records of a mirror's segments."""
    content = MirrorContent({}, {}, {})
    for segment in segments:
        proven = {record.seq for record in segment.proven}
        for record in segment.records:
            kind = content.lost if record.seq in segment.lost else content.readable
            (content.proven if record.seq in proven else kind)[record.seq] = record
    return content


def merge(
    mirror: MirrorContent,
    database: Mapping[int, Record],
    raw: Mapping[int, bytes] | None = None,
    head: int = 0,
) -> MergedLog:
    """Every record that is readable in either copy, from the mirror's first one on (else from 1).

    `raw`: bytes of records in the database that are not text. `head`: how many records there were, if
    that is known.
    """
    raw = raw or {}
    if (alike := _same_history(mirror, database)) is not database:
        database, raw, head = alike, {}, 0  # its count belongs to the other history, too
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
        end = top + 1  # the commit had at least one more record
    records, lost = [], []
    for seq in range(first, end + 1):
        record = real.get(seq)
        if record is None:
            lost.append(seq)
            record = mirror.lost.get(seq) if seq not in raw else None
            record = record or placeholder(seq, raw.get(seq, b""))
        records.append(record)
    records[-1] = records[-1]._replace(last=True)
    return MergedLog(_with_times(records, set(lost)), lost)


def _same_history(mirror: MirrorContent, database: Mapping[int, Record]) -> Mapping[int, Record]:
    """The database's records up to where they differ from the mirror's proven history."""
    both = sorted(set(mirror.proven) & set(database))
    if not both or is_same(mirror.proven[both[-1]], database[both[-1]]):
        return database
    alike = [seq for seq in both if is_same(mirror.proven[seq], database[seq])]
    last = max(alike, default=0)
    return {seq: record for seq, record in database.items() if seq <= last}


def is_same(one: Record, other: Record) -> bool:
    """Whether these are two copies of one record, one of them perhaps altered in its time or its content.

    Two histories do not share a time: it has microseconds.
    """
    return one.seq == other.seq and (one.at == other.at or one._replace(at=other.at) == other)


class Difference(NamedTuple):
    """A record that a checksum proves in the mirror and that is different or missing in the database."""

    stored: Record | None
    proven: Record


def altered(differences: Mapping[int, Difference], agreed: int, sealed: int) -> list[int]:
    """The differences that were altered in the database; the others belong to another history.

    An old copy of a database may have continued with its own history, as valid as the mirror's. It is the
    same history if a later record is equal (`agreed` is the last one), if both were equal before
    (up to `sealed`), and if the time of a record is the same.
    """
    return [
        seq
        for seq, (stored, proven) in differences.items()
        if not is_sound(stored) or stored is None or seq < agreed or seq <= sealed or is_same(stored, proven)
    ]


def _with_times(records: Sequence[Record], lost: set[int]) -> list[Record]:
    """Placeholders get the time of the next real record, else of the one before."""
    at = next((record.at for record in reversed(records) if record.seq not in lost), records[-1].at)
    timed: list[Record] = []
    for record in reversed(records):
        at = at if record.seq in lost else record.at
        timed.append(record if record.at else record._replace(at=at))
    return timed[::-1]


def with_creation(records: Sequence[Record], known: c.Create | None = None) -> list[Record]:
    """Give a log whose creation is lost a new one that says so, from `known` or at least with its agent."""
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
    """Seqs as text: "3", "5-9"."""
    runs: list[list[int]] = []
    for seq in sorted(seqs):
        if runs and runs[-1][1] == seq - 1:
            runs[-1][1] = seq
        else:
            runs.append([seq, seq])
    return [str(first) if first == last else f"{first}-{last}" for first, last in runs]


def lost_text(lost: Sequence[int]) -> str:
    """The end of a sentence about lost records; empty if none is lost."""
    if not lost:
        return ""
    runs = ranges(lost)
    first = ", ".join(runs[:5]) + (", …" if len(runs) > 5 else "")
    return f"; {count_text(len(lost))} could not be read in any copy: {first}"


def count_text(records: int) -> str:
    """A number of records as text."""
    return f"{records} record" if records == 1 else f"{records} records"
