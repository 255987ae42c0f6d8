"""Looking at a home: one `stat` a session, content only where that is not enough. Nothing is changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast import errors, ids
from holdfast.home import Home
from holdfast.model.event import Record
from holdfast.node import Node
from holdfast.recovery import mirror_reader
from holdfast.recovery.damaged_records import DamagedRecord, damaged_records
from holdfast.recovery.findings import Finding
from holdfast.recovery.merge import Difference, altered, content, counted, lost_in_words, ranges
from holdfast.recovery.restore import fold_log, load_view
from holdfast.recovery.survey import ENDING, UNKNOWN, Sight, Survey, survey, unreadable
from holdfast.store.mirror.compare import MirrorPosition, compare
from holdfast.store.mirror.files import seal
from holdfast.store.sql import Row, Sql


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
            parting = CUT if sight.stat.st_size < _sealed(head.seal, 1) else BEHIND
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


def _sealed(seal: str | None, part: int) -> int:
    """The last record (0) or the length (1) of the mirror when it was known to be on disk, else 0."""
    parts = (seal or "").split("/")
    return int(parts[part]) if len(parts) == 3 and parts[part].isascii() and parts[part].isdigit() else 0


class Parting(NamedTuple):
    """A way in which a mirror can part from its log."""

    code: str
    text: str
    action: str


ANEW = "move it to quarantine and recreate it from the database"
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
ALTERED = Parting(
    "database_altered",
    "{altered} records of the database are not what the mirror has, whose checksums are valid",
    "restore them from the mirror; the altered ones go into quarantine",
)
DAMAGED = Parting("mirror_damaged", "the mirror is damaged behind record {alike}", ANEW)
BY_DAMAGE = {
    "torn": Parting("mirror_torn", "the mirror is torn behind record {alike}", ANEW),
    "wrong_session": Parting("mirror_wrong_session", "it holds records of another session", ANEW),
}


class Contrast(NamedTuple):
    """A mirror beside its log, from the byte on where they part."""

    damage: str | None
    differences: dict[int, Difference]  # what the mirror's checksums prove and the database has otherwise
    unproven: list[int]  # what differs where no checksum says which is right
    beyond: int  # proven records behind the database's last one
    joined: bool  # whether these follow from it
    agreed: int  # the last record that both have alike
    altered: list[int]  # those of the differences that were altered in the database


async def contrast(sql: Sql, head: Head, path: str, level: MirrorPosition) -> Contrast:
    """Read on where the two part; the mirror decides where its checksums hold."""
    damage: str | None = None
    differences: dict[int, Difference] = {}
    unproven: list[int] = []
    beyond, agreed = 0, level.seq
    joined = level.seq == head.seq  # only then does what is beyond the log's end follow from it
    for piece in mirror_reader.read(head.id, path, level.offset, level.seq):
        damage = damage or piece.damage
        if not piece.records:
            continue
        after, last = piece.records[0].seq - 1, min(piece.records[-1].seq, head.seq)
        rows = await sql.rows("log", n=head.n, after=after, limit=max(0, last - after))
        stored = {row[0]: Record(*row) for row in rows}
        sure = {record.seq for record in piece.proven}
        for record in piece.records:
            if record.seq in piece.lost:
                continue
            if record.seq > head.seq:
                beyond += bool(piece.sure)
            elif stored.get(record.seq) == record:
                joined, agreed = joined or record.seq == head.seq, record.seq
            elif record.seq in sure or not mirror_reader.is_sound(stored.get(record.seq)):
                differences[record.seq] = Difference(stored.get(record.seq), record)
            else:
                unproven.append(record.seq)
    wrong = altered(differences, agreed, _sealed(head.seal, 0))
    joined = joined or head.seq in wrong
    return Contrast(damage, differences, unproven, beyond, joined, agreed, wrong)


async def _parting(
    sql: Sql, head: Head, sight: Sight, level: MirrorPosition
) -> tuple[Parting, dict[str, Any]]:
    """What a mirror holds from the first byte that differs from the log."""
    found = await contrast(sql, head, sight.path, level)
    damage, beyond, wrong = found.damage, found.beyond, found.altered
    other = sorted({*found.differences, *found.unproven} - set(wrong))
    facts: dict[str, Any] = {"beyond": beyond, "other": len(other), "seqs": other[:100], "damage": damage}
    forked = any(seq not in wrong for seq in found.differences)
    facts["new"] = beyond if found.joined and not forked and not found.unproven else 0
    if wrong and not forked:
        facts |= {"altered": len(wrong), "seqs": wrong[:100]}
        return ALTERED, facts
    if other or (beyond and not found.joined):
        return (OTHER if other else APART), facts
    if beyond and damage is None:
        return LONGER, facts
    return BY_DAMAGE.get(damage or "", DAMAGED), facts


# --- Looking at a home: one `stat` a session, content only where that is not enough. Nothing is changed.


class Looked(NamedTuple):
    """What an examination came to."""

    findings: list[Finding]
    unsealed: list[tuple[str, str]]  # mirrors that are level, with the seal they should have
    sessions: int
    compared: int


async def examine(sql: Sql, home: Home, mine: Node | None, deep: bool) -> Looked:
    """Compare database and mirrors. `mine`: mirror only this node's sessions; None: all."""
    rows = await sql.rows("heads")
    seen = survey(home, {} if deep else _seals(rows))
    findings = list(seen.strange)
    unsealed: list[tuple[str, str]] = []
    compared = 0
    for row in rows:
        if row[1] in seen.intact and row[1] not in seen.tombstones and row[1] not in seen.trashed:
            continue
        head = Head(*row)
        if not ids.is_id(head.id, ids.SESSION):
            findings.append(_misnamed(head))
            continue
        sight = seen.mirrors.pop(head.id, None)
        tombstone = seen.tombstones.pop(head.id, None)
        trashed = seen.trashed.pop(head.id, None)
        found = _deletion(head, sight, tombstone)
        if found is not None:
            findings.append(found)
        if head.state != "deleted" and (found is None or found.code == "tombstone_stale"):
            if trashed is not None:
                findings.append(_in_trash(head))
            if head.id in seen.intact:
                pass
            elif sight is None:
                wanted = mine is None or mine.owns(head.host)
                if wanted and trashed is None and head.id + ENDING not in seen.taken:
                    found = _missing(head)
                    findings.append(found)
            elif deep or head.seal != seal(head.seq, sight.stat):
                compared += 1
                found = await look_closer(sql, head, sight, unsealed)
                if found is not None:
                    findings.append(found)
        elif deep and found is None and trashed is not None:
            compared += 1
            found = await compare_trashed(sql, head, trashed)
            if found is not None:
                findings.append(found)
        if found is not None and found.code == ALTERED.code:
            continue  # its views are made anew when its records are right again
        if (deep or found is not None) and _is_log_decisive(found):
            damaged = await damaged_records(sql, head.n, head.id)
            if damaged:
                findings.append(_damaged_records(head, damaged, found))
                continue  # the repair rebuilds its views too
        if deep and (drift := await _view_drift(sql, head)) is not None:
            findings.append(drift)
    for session in sorted({*seen.mirrors, *seen.trashed}):
        findings.append(_not_in_database(session, seen, deep))
    return Looked(findings, unsealed, len(rows), compared)


def _seals(rows: list[Row]) -> dict[str, str]:
    """By file name, the seals of the sessions that have not grown since."""
    return {
        session + ENDING: sealed
        for _n, session, state, seq, sealed, *_ in rows
        if sealed is not None and state != "deleted" and sealed.startswith(f"{seq}/")
    }


# --- one session


def _deletion(head: Head, sight: Sight | None, tombstone: dict[str, Any] | None) -> Finding | None:
    """What is unfinished about a delete or a restore."""
    if head.state == "deleted":
        if sight is not None:
            return Finding(
                code="deleted_reappeared",
                subject=head.id,
                text="a mirror of this deleted session lies among the live ones",
                action="move it into the trash, unless its records tell of a restore",
                evidence=_deletion_in(tombstone),
                signature=sight.signature,
            )
        if tombstone is None:
            return Finding(
                code="tombstone_missing",
                subject=head.id,
                text="the session is deleted, but no tombstone says so on disk",
                action="write the tombstone",
            )
        return None
    if tombstone is None or _is_unknown(tombstone):
        return None
    if head.undone == tombstone["deletion"]["id"]:
        return Finding(
            code="tombstone_stale",
            subject=head.id,
            text="the session was restored; its tombstone was left behind",
            action="remove the tombstone",
        )
    return Finding(
        code="delete_unfinished",
        subject=head.id,
        text="a tombstone says that this session was deleted; the database does not know it",
        action="delete it",
        evidence={"deletion": tombstone["deletion"]},
    )


async def compare_trashed(sql: Sql, head: Head, sight: Sight) -> Finding | None:
    """The mirror of a deleted session beside its log; one that is gone was cleared by somebody."""
    found = await look_closer(sql, head, sight, [])
    if found is None or found.action is None:
        return found
    code, action = (CUT.code, CUT.action) if found.code == BEHIND.code else (found.code, found.action)
    evidence = found.evidence | {"trashed": True}
    return msgspec.structs.replace(found, code=code, action=action, evidence=evidence)


def _in_trash(head: Head) -> Finding:
    return Finding(
        code="mirror_in_trash",
        subject=head.id,
        text="a mirror of it lies in the trash, but nothing else says that the session was deleted",
        action="delete the session if its records say so; else take the mirror out of the trash",
    )


def _is_log_decisive(found: Finding | None) -> bool:
    """Whether no file can have a better copy of the log's records, once the mirrors were compared."""
    return found is None or found.code not in ("deleted_reappeared", "delete_unfinished")


def _damaged_records(head: Head, damaged: list[DamagedRecord], mirror: Finding | None) -> Finding:
    lost = [record.row.seq for record in damaged]
    return Finding(
        code="record_damaged",
        subject=head.id,
        text=f"the database has {counted(len(lost))} that cannot be read: {', '.join(ranges(lost))}; "
        "no other copy has them",
        action="replace each with a notice; the bytes go into quarantine",
        evidence={
            "lost": ranges(lost),
            "trashed": head.state == "deleted",
            "mirror_follows": mirror is None or mirror.code == BEHIND.code,
        },
    )


def _missing(head: Head) -> Finding:
    return Finding(
        code="mirror_missing",
        subject=head.id,
        text=f"the session has {head.seq} records and no mirror",
        action="recreate it from the database",
    )


def _misnamed(head: Head) -> Finding:
    return Finding(
        code="session_misnamed",
        subject=repr(head.id),
        text=f"the database has a session of {head.seq} records under an invalid name",
        action=None,
    )


def _not_in_database(session: str, seen: Survey, deep: bool) -> Finding:
    """A mirror whose session the database does not have."""
    tombstone = seen.tombstones.pop(session, None)
    sight = seen.mirrors.get(session) or seen.trashed[session]
    try:
        first = next(mirror_reader.read(session, sight.path), None)
        whole = first is not None and first.damage is None
        held = None if whole and not deep else content(mirror_reader.read(session, sight.path))
    except OSError as problem:
        return unreadable(sight.path, problem)
    if held is not None and not held.proven and not held.readable:
        return Finding(
            code="mirror_unreadable",
            subject=session,
            text="no record of the mirror can be read, and its session is not in the database",
            action=None,
            evidence={
                "damage": first.damage if first else "empty",
                "file": sight.path,
                "bytes": sight.stat.st_size,
            },
        )
    deleted = tombstone is not None or session in seen.trashed
    text = "the database does not have this session" + ("; it stays deleted" if deleted else "")
    facts: dict[str, Any] = {}
    if held is not None:
        facts = {"readable": len(held.proven) + len(held.readable), "lost": ranges(held.lost)}
        text += f"; its mirror has {counted(facts['readable'])}{lost_in_words(sorted(held.lost))}"
    return Finding(
        code="deleted_not_in_database" if deleted else "session_missing",
        subject=session,
        text=text,
        action="put it back into the database" + (", as deleted" if deleted else ""),
        evidence=facts
        | _deletion_in(tombstone)
        | ({"grave": "unreadable"} if _is_unknown(tombstone) else {}),
        signature=sight.signature,
    )


async def _view_drift(sql: Sql, head: Head) -> Finding | None:
    """The views in the tables beside what the log says."""
    try:
        told = await fold_log(sql, head.n, head.id)
    except errors.StoreUnreadable as problem:
        return Finding(code="log_unreadable", subject=head.id, text=str(problem), action=None)
    try:
        _, kept = await load_view(sql, head.id)
    except (ValueError, msgspec.ValidationError, errors.StoreUnreadable):
        kept = None  # a value in the tables that no view has
    if kept is not None and kept.session is not None and kept.session.metadata is None:
        stored: bytes = (await sql.rows("metadata", n=head.n))[0][0]
        return Finding(
            code="metadata_unreadable",
            subject=head.id,
            text=f"the stored metadata cannot be read: {kept.session.metadata_problem}",
            action="rebuild it from the log; the stored text goes into quarantine",
            evidence={"stored": stored[:200].decode(errors="replace")},
        )
    if kept == told:
        return None
    return Finding(
        code="view_drift",
        subject=head.id,
        text="header, tokens or tasks are not what the log says",
        action="rebuild them from the log",
    )


def _deletion_in(tombstone: dict[str, Any] | None) -> dict[str, Any]:
    return {"deletion": tombstone["deletion"]} if tombstone and not _is_unknown(tombstone) else {}


def _is_unknown(tombstone: dict[str, Any] | None) -> bool:
    return tombstone is not None and bool(tombstone["deletion"]["id"] == UNKNOWN)
