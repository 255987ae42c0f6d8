"""How does a mirror differ from its session's log, and which of the two is right?"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast.model.event import Record
from holdfast.recovery import mirror_reader
from holdfast.recovery.findings import Finding
from holdfast.recovery.merge import Difference, altered
from holdfast.recovery.scan import MirrorFile, unreadable
from holdfast.store.mirror.compare import MirrorPosition, compare
from holdfast.store.mirror.files import seal
from holdfast.store.sql import Sql


class SessionHead(NamedTuple):
    """A session in the database: a row of the `heads` query."""

    n: int
    id: str
    state: str
    seq: int
    seal: str | None
    host: str | None
    deletion: str | None
    undone: str | None


class Mismatch(NamedTuple):
    """One way in which a mirror differs from its log."""

    code: str
    text: str
    action: str


RECREATE = "move it to quarantine and recreate it from the database"
EMPTY = Mismatch("mirror_empty", "the mirror has zero bytes", RECREATE)
SHORT = Mismatch("mirror_short", "the mirror was cut after record {alike}", RECREATE)
BEHIND = Mismatch(
    "mirror_behind", "the mirror ends at record {alike} of {records}", "append the missing records"
)
LONGER = Mismatch(
    "database_behind",
    "the mirror has {new} records that the database lacks",
    "restore them to the database",
)
OTHER = Mismatch(
    "conflict",
    "{other} records differ between the mirror and the database; both versions are kept",
    RECREATE,
)
DETACHED = Mismatch(
    "conflict",
    "the mirror has {beyond} records that the database lacks, but not the records before them; "
    "both versions are kept",
    RECREATE,
)
ALTERED = Mismatch(
    "database_altered",
    "{altered} records in the database differ from the mirror, whose checksums are valid",
    "restore them from the mirror; the altered ones go to quarantine",
)
DAMAGED = Mismatch("mirror_damaged", "the mirror is damaged after record {alike}", RECREATE)
BY_DAMAGE = {
    "torn": Mismatch("mirror_torn", "the mirror is torn after record {alike}", RECREATE),
    "wrong_session": Mismatch("mirror_wrong_session", "it holds records of another session", RECREATE),
}


async def compare_mirror(
    sql: Sql, head: SessionHead, mirror: MirrorFile, unsealed: list[tuple[str, str]]
) -> Finding | None:
    """Compare the content of a mirror with its log. A mirror that is equal is added to `unsealed`."""
    try:
        comparison = await compare(sql, head.n, head.id, mirror.path)
        if comparison.result == "equal":
            unsealed.append((head.id, seal(head.seq, mirror.stat)))
            return None
        if comparison.result == "short" and comparison.matched.seq:
            mismatch = SHORT if mirror.stat.st_size < _sealed(head.seal, 1) else BEHIND
            facts: dict[str, Any] = {}
        elif mirror.stat.st_size == 0:
            mismatch, facts = EMPTY, {}
        else:
            mismatch, facts = await _find_mismatch(sql, head, mirror, comparison.matched)
    except OSError as problem:
        return unreadable(mirror.path, problem)
    facts |= {"records": head.seq, "alike": comparison.matched.seq, "bytes": mirror.stat.st_size}
    return Finding(
        code=mismatch.code,
        subject=head.id,
        text=mismatch.text.format(**facts),
        action=mismatch.action,
        evidence=facts,
        signature=mirror.signature,
    )


async def compare_trashed(sql: Sql, head: SessionHead, mirror: MirrorFile) -> Finding | None:
    """Compare a mirror in the trash with its log. The mirror thread does not append to the trash."""
    finding = await compare_mirror(sql, head, mirror, [])
    if finding is None or finding.action is None:
        return finding
    behind = finding.code == BEHIND.code
    code, action = (SHORT.code, SHORT.action) if behind else (finding.code, finding.action)
    evidence = finding.evidence | {"trashed": True}
    return msgspec.structs.replace(finding, code=code, action=action, evidence=evidence)


def _sealed(seal: str | None, part: int) -> int:
    """The last record (0) or the length (1) of the mirror when it was last known to be on disk, else 0."""
    parts = (seal or "").split("/")
    return int(parts[part]) if len(parts) == 3 and parts[part].isascii() and parts[part].isdigit() else 0


class MirrorDiff(NamedTuple):
    """A mirror compared with its log, from the first byte that differs."""

    damage: str | None
    differences: dict[int, Difference]  # proven by the mirror's checksums, different in the database
    unproven: list[int]  # records that differ where no checksum shows which version is right
    beyond: int  # proven records after the database's last one
    joined: bool  # whether those follow the database's last one
    agreed: int  # the last record that is the same in both
    altered: list[int]  # those of the differences that were altered in the database


async def diff_mirror(sql: Sql, head: SessionHead, path: str, matched: MirrorPosition) -> MirrorDiff:
    """Read on from the position up to which both match. The mirror is right where its checksums hold."""
    damage: str | None = None
    differences: dict[int, Difference] = {}
    unproven: list[int] = []
    beyond, agreed = 0, matched.seq
    joined = matched.seq == head.seq  # only then do later records follow the log's end
    for segment in mirror_reader.read(head.id, path, matched.offset, matched.seq):
        damage = damage or segment.damage
        if not segment.records:
            continue
        after, last = segment.records[0].seq - 1, min(segment.records[-1].seq, head.seq)
        rows = await sql.rows("log", n=head.n, after=after, limit=max(0, last - after))
        stored = {row[0]: Record(*row) for row in rows}
        proven = {record.seq for record in segment.proven}
        for record in segment.records:
            if record.seq in segment.lost:
                continue
            if record.seq > head.seq:
                beyond += bool(segment.proven_count)
            elif stored.get(record.seq) == record:
                joined, agreed = joined or record.seq == head.seq, record.seq
            elif record.seq in proven or not mirror_reader.is_sound(stored.get(record.seq)):
                differences[record.seq] = Difference(stored.get(record.seq), record)
            else:
                unproven.append(record.seq)
    wrong = altered(differences, agreed, _sealed(head.seal, 0))
    joined = joined or head.seq in wrong
    return MirrorDiff(damage, differences, unproven, beyond, joined, agreed, wrong)


async def _find_mismatch(
    sql: Sql, head: SessionHead, mirror: MirrorFile, matched: MirrorPosition
) -> tuple[Mismatch, dict[str, Any]]:
    """Classify what a mirror holds after the first byte that differs from the log."""
    diff = await diff_mirror(sql, head, mirror.path, matched)
    other = sorted({*diff.differences, *diff.unproven} - set(diff.altered))
    facts: dict[str, Any] = {
        "beyond": diff.beyond,
        "other": len(other),
        "seqs": other[:100],
        "damage": diff.damage,
    }
    forked = any(seq not in diff.altered for seq in diff.differences)
    facts["new"] = diff.beyond if diff.joined and not forked and not diff.unproven else 0
    if diff.altered and not forked:
        facts |= {"altered": len(diff.altered), "seqs": diff.altered[:100]}
        return ALTERED, facts
    if other or (diff.beyond and not diff.joined):
        return (OTHER if other else DETACHED), facts
    if diff.beyond and diff.damage is None:
        return LONGER, facts
    return BY_DAMAGE.get(diff.damage or "", DAMAGED), facts
