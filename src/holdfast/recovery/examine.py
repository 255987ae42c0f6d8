"""What is wrong in a home? One `stat` per session; reads content only where that is not enough.

Changes nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast import errors, ids
from holdfast.home import Home
from holdfast.node import Node
from holdfast.recovery import mirror_reader
from holdfast.recovery.damaged_records import DamagedRecord, damaged_records
from holdfast.recovery.findings import Finding
from holdfast.recovery.merge import count_text, lost_text, mirror_content, ranges
from holdfast.recovery.mirror_diff import ALTERED, BEHIND, SessionHead, compare_mirror, compare_trashed
from holdfast.recovery.restore import fold_log, load_view
from holdfast.recovery.scan import MIRROR_SUFFIX, UNKNOWN, HomeScan, MirrorFile, scan_home, unreadable
from holdfast.store.mirror.files import seal
from holdfast.store.sql import Row, Sql


class Examination(NamedTuple):
    """The result of examining a home."""

    findings: list[Finding]
    unsealed: list[tuple[str, str]]  # mirrors that equal their logs, with the seals to record
    sessions: int
    compared: int


async def examine(sql: Sql, home: Home, mine: Node | None, deep: bool) -> Examination:
    """Compare the database with the mirrors. `mine`: this node mirrors only its own sessions; None: all."""
    rows = await sql.rows("heads")
    scan = scan_home(home, {} if deep else _seals(rows))
    findings = list(scan.findings)
    unsealed: list[tuple[str, str]] = []
    compared = 0
    for row in rows:
        if row[1] in scan.intact and row[1] not in scan.tombstones and row[1] not in scan.trashed:
            continue
        head = SessionHead(*row)
        if not ids.is_id(head.id, ids.SESSION):
            findings.append(_misnamed(head))
            continue
        mirror = scan.mirrors.pop(head.id, None)
        tombstone = scan.tombstones.pop(head.id, None)
        trashed = scan.trashed.pop(head.id, None)
        finding = _unfinished_deletion(head, mirror, tombstone)
        if finding is not None:
            findings.append(finding)
        if head.state != "deleted" and (finding is None or finding.code == "tombstone_stale"):
            if trashed is not None:
                findings.append(_in_trash(head))
            if head.id in scan.intact:
                pass
            elif mirror is None:
                wanted = mine is None or mine.owns(head.host)
                if wanted and trashed is None and head.id + MIRROR_SUFFIX not in scan.blocked:
                    finding = _missing(head)
                    findings.append(finding)
            elif deep or head.seal != seal(head.seq, mirror.stat):
                compared += 1
                finding = await compare_mirror(sql, head, mirror, unsealed)
                if finding is not None:
                    findings.append(finding)
        elif deep and finding is None and trashed is not None:  # without a file: somebody emptied the trash
            compared += 1
            finding = await compare_trashed(sql, head, trashed)
            if finding is not None:
                findings.append(finding)
        if finding is not None and finding.code == ALTERED.code:
            continue  # the repair of its records rebuilds its views too
        if (deep or finding is not None) and _is_log_decisive(finding):
            damaged = await damaged_records(sql, head.n, head.id)
            if damaged:
                findings.append(_damaged_records(head, damaged, finding))
                continue  # the repair rebuilds its views too
        if deep and (drift := await _view_drift(sql, head)) is not None:
            findings.append(drift)
    for session in sorted({*scan.mirrors, *scan.trashed}):
        findings.append(_not_in_database(session, scan, deep))
    return Examination(findings, unsealed, len(rows), compared)


def _seals(rows: list[Row]) -> dict[str, str]:
    """By file name, the seals of the sessions that have not grown since."""
    return {
        session + MIRROR_SUFFIX: sealed
        for _n, session, state, seq, sealed, *_ in rows
        if sealed is not None and state != "deleted" and sealed.startswith(f"{seq}/")
    }


def _unfinished_deletion(
    head: SessionHead, mirror: MirrorFile | None, tombstone: dict[str, Any] | None
) -> Finding | None:
    """The finding for a delete or a restore that was cut short."""
    if head.state == "deleted":
        if mirror is not None:
            return Finding(
                code="deleted_reappeared",
                subject=head.id,
                text="the mirror of this deleted session is in sessions/",
                action="move it to the trash, unless its records show a restore",
                evidence=_deletion_in(tombstone),
                signature=mirror.signature,
            )
        if tombstone is None:
            return Finding(
                code="tombstone_missing",
                subject=head.id,
                text="the session is deleted, but has no tombstone file",
                action="write the tombstone",
            )
        return None
    if tombstone is None or _is_unknown(tombstone):
        return None
    if head.undone == tombstone["deletion"]["id"]:
        return Finding(
            code="tombstone_stale",
            subject=head.id,
            text="the session was restored, but its tombstone file remains",
            action="remove the tombstone",
        )
    return Finding(
        code="delete_unfinished",
        subject=head.id,
        text="a tombstone file says that this session was deleted, but the database does not",
        action="delete it",
        evidence={"deletion": tombstone["deletion"]},
    )


def _in_trash(head: SessionHead) -> Finding:
    return Finding(
        code="mirror_in_trash",
        subject=head.id,
        text="its mirror is in the trash, but nothing else says that the session was deleted",
        action="delete the session if its records say so; else take the mirror out of the trash",
    )


def _is_log_decisive(finding: Finding | None) -> bool:
    """Whether no file can have better records than the log, now that the mirrors are compared."""
    return finding is None or finding.code not in ("deleted_reappeared", "delete_unfinished")


def _damaged_records(head: SessionHead, damaged: list[DamagedRecord], mirror: Finding | None) -> Finding:
    lost = [record.row.seq for record in damaged]
    return Finding(
        code="record_damaged",
        subject=head.id,
        text=f"the database has {count_text(len(lost))} that cannot be read: {', '.join(ranges(lost))}; "
        "no other copy has them",
        action="replace each with a notice; the bytes go to quarantine",
        evidence={
            "lost": ranges(lost),
            "trashed": head.state == "deleted",
            "mirror_follows": mirror is None or mirror.code == BEHIND.code,
        },
    )


def _missing(head: SessionHead) -> Finding:
    return Finding(
        code="mirror_missing",
        subject=head.id,
        text=f"the session has {head.seq} records and no mirror",
        action="recreate it from the database",
    )


def _misnamed(head: SessionHead) -> Finding:
    return Finding(
        code="session_misnamed",
        subject=repr(head.id),
        text=f"the database has a session of {head.seq} records under an invalid name",
        action=None,
    )


def _not_in_database(session: str, scan: HomeScan, deep: bool) -> Finding:
    """The finding for a mirror whose session the database does not have."""
    tombstone = scan.tombstones.pop(session, None)
    mirror = scan.mirrors.get(session) or scan.trashed[session]
    try:
        first = next(mirror_reader.read(session, mirror.path), None)
        whole = first is not None and first.damage is None
        content = None
        if deep or not whole:
            content = mirror_content(mirror_reader.read(session, mirror.path))
    except OSError as problem:
        return unreadable(mirror.path, problem)
    if content is not None and not content.proven and not content.readable:
        return Finding(
            code="mirror_unreadable",
            subject=session,
            text="no record of the mirror is readable, and its session is not in the database",
            action=None,
            evidence={
                "damage": first.damage if first else "empty",
                "file": mirror.path,
                "bytes": mirror.stat.st_size,
            },
        )
    deleted = tombstone is not None or session in scan.trashed
    text = "the database does not have this session" + ("; it stays deleted" if deleted else "")
    facts: dict[str, Any] = {}
    if content is not None:
        facts = {"readable": len(content.proven) + len(content.readable), "lost": ranges(content.lost)}
        text += f"; its mirror has {count_text(facts['readable'])}{lost_text(sorted(content.lost))}"
    return Finding(
        code="deleted_not_in_database" if deleted else "session_missing",
        subject=session,
        text=text,
        action="restore it to the database" + (", as deleted" if deleted else ""),
        evidence=facts
        | _deletion_in(tombstone)
        | ({"grave": "unreadable"} if _is_unknown(tombstone) else {}),
        signature=mirror.signature,
    )


async def _view_drift(sql: Sql, head: SessionHead) -> Finding | None:
    """Compare the views in the tables with those that the log gives."""
    try:
        expected = await fold_log(sql, head.n, head.id)
    except errors.StoreUnreadable as problem:
        return Finding(code="log_unreadable", subject=head.id, text=str(problem), action=None)
    try:
        _, stored = await load_view(sql, head.id)
    except (ValueError, msgspec.ValidationError, errors.StoreUnreadable):
        stored = None  # a value in the tables that no view can have
    if stored is not None and stored.session is not None and stored.session.metadata is None:
        text: bytes = (await sql.rows("metadata", n=head.n))[0][0]
        return Finding(
            code="metadata_unreadable",
            subject=head.id,
            text=f"the stored metadata is unreadable: {stored.session.metadata_problem}",
            action="rebuild it from the log; the stored text goes to quarantine",
            evidence={"stored": text[:200].decode(errors="replace")},
        )
    if stored == expected:
        return None
    return Finding(
        code="view_drift",
        subject=head.id,
        text="header, tokens or tasks differ from the log",
        action="rebuild them from the log",
    )


def _deletion_in(tombstone: dict[str, Any] | None) -> dict[str, Any]:
    return {"deletion": tombstone["deletion"]} if tombstone and not _is_unknown(tombstone) else {}


def _is_unknown(tombstone: dict[str, Any] | None) -> bool:
    return tombstone is not None and bool(tombstone["deletion"]["id"] == UNKNOWN)
