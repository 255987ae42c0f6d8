"""A mirror that is not as it was sealed, read beside its log: how the two part."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.model.record import Record
from holdfast.recover import reading
from holdfast.recover.finding import Finding
from holdfast.recover.survey import Sight, unreadable
from holdfast.store.mirror.compare import Position, compare
from holdfast.store.mirror.files import seal
from holdfast.store.sql import Sql


class Head(NamedTuple):
    """A session as the database has it."""

    n: int
    id: str
    state: str
    seq: int
    seal: str | None
    host: str | None
    deletion: str | None
    undone: str | None


async def look_closer(sql: Sql, head: Head, sight: Sight, unsealed: list[tuple[str, str]]) -> Finding | None:
    """Read a mirror beside its log."""
    try:
        found = await compare(sql, head.n, head.id, sight.path)
        if found.result == "level":
            unsealed.append((head.id, seal(head.seq, sight.stat)))
            return None
        if found.result == "short" and found.level.seq:
            parting = CUT if sight.stat.st_size < _sealed_size(head.seal) else BEHIND
            facts: dict[str, Any] = {}
        elif sight.stat.st_size == 0:
            parting, facts = EMPTY, {}
        else:
            parting, facts = await _parting(sql, head, sight, found.level)
    except OSError as problem:
        return unreadable(sight.path, problem)
    facts |= {"records": head.seq, "alike": found.level.seq, "bytes": sight.stat.st_size}
    return Finding(
        code=parting.code,
        subject=head.id,
        text=parting.text.format(**facts),
        action=parting.action,
        evidence=facts,
        signature=sight.signature,
    )


def _sealed_size(seal: str | None) -> int:
    """How long the mirror was when it was known to be on disk."""
    parts = (seal or "").split("/")
    return int(parts[1]) if len(parts) == 3 and parts[1].isascii() and parts[1].isdigit() else 0


class Parting(NamedTuple):
    """A way in which a mirror can part from its log."""

    code: str
    text: str
    action: str


ANEW = "put it into quarantine and make it anew from the database"
EMPTY = Parting("mirror_empty", "the mirror has zero bytes", ANEW)
CUT = Parting("mirror_short", "the mirror was cut after record {alike}", ANEW)
BEHIND = Parting("mirror_behind", "the mirror ends at record {alike} of {records}", "add what it lacks")
LONGER = Parting(
    "database_behind",
    "the mirror has {new} records that the database lacks",
    "put them back into the database",
)
OTHER = Parting(
    "conflict",
    "{other} records have other content in the mirror than in the database; both are kept",
    ANEW,
)
APART = Parting(
    "conflict",
    "the mirror has {beyond} records that the database lacks, but not what they follow; both are kept",
    ANEW,
)
DAMAGED = Parting("mirror_damaged", "the mirror is damaged behind record {alike}", ANEW)
BY_DAMAGE = {
    "torn": Parting("mirror_torn", "the mirror is torn behind record {alike}", ANEW),
    "wrong_session": Parting("mirror_wrong_session", "it holds records of another session", ANEW),
}


async def _parting(sql: Sql, head: Head, sight: Sight, level: Position) -> tuple[Parting, dict[str, Any]]:
    """What a mirror holds from the byte on where it parts from the log."""
    damage: str | None = None
    other: list[int] = []
    beyond = 0
    joined = level.seq == head.seq  # only then does what is beyond the log's end follow from it
    for piece in reading.read(head.id, sight.path, level.offset, level.seq):
        damage = damage or piece.damage
        if not piece.records:
            continue
        after, last = piece.records[0].seq - 1, min(piece.records[-1].seq, head.seq)
        rows = await sql.rows("log", n=head.n, after=after, limit=max(0, last - after))
        stored = {row[0]: Record(*row) for row in rows}
        for record in piece.records:
            if record.seq in piece.lost:
                continue
            if record.seq > head.seq:
                beyond += bool(piece.sure)
            elif stored.get(record.seq) != record:
                other.append(record.seq)
            else:
                joined = joined or record.seq == head.seq
    facts = {"beyond": beyond, "other": len(other), "seqs": other[:100], "damage": damage}
    facts["new"] = beyond if joined and not other else 0
    if other or (beyond and not joined):
        return (OTHER if other else APART), facts
    if beyond and damage is None:
        return LONGER, facts
    return BY_DAMAGE.get(damage or "", DAMAGED), facts
