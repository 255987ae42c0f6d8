"""How is a mirror made equal to its session's log? Replaced bytes go to quarantine."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from holdfast import durable_io, timestamps
from holdfast.home import Home
from holdfast.model.event import Record
from holdfast.model.json_codec import encode
from holdfast.recovery.damaged_records import DamagedRecord, damaged_records, raw_bytes, replacements
from holdfast.recovery.findings import Finding, signature
from holdfast.recovery.merge import count_text, lost_text, ranges
from holdfast.recovery.mirror_diff import MirrorDiff, SessionHead, diff_mirror
from holdfast.recovery.mirror_import import RepairOptions, import_mirror
from holdfast.recovery.restore import replace_records
from holdfast.store.backend import OperationResult
from holdfast.store.mirror import format
from holdfast.store.mirror.compare import compare, pages
from holdfast.store.mirror.files import MirrorFiles
from holdfast.store.sql import Sql
from holdfast.store.store import Store

RECREATED = "recreated from the database"
UNTOUCHED = "the file has changed since it was examined, so it was not touched"


class RepairResult(NamedTuple):
    """What a repair did."""

    text: str
    kept: Sequence[str] = ()  # files in quarantine
    recovered: int | None = None  # records that are back in the database
    lost: Sequence[str] = ()  # ranges of records that no copy has


def mirror_path(home: Home, finding: Finding) -> str:
    """The mirror file of a finding."""
    trashed = finding.evidence.get("trashed")
    return home.trashed(finding.subject) if trashed else home.mirror(finding.subject)


async def write_mirror(store: Store, home: Home, finding: Finding) -> RepairResult:
    """Write the mirror from the database. The old file goes to quarantine."""
    session = finding.subject
    temp = durable_io.temp_name(mirror_path(home, finding))
    try:
        await store.query(lambda sql: _write_lines(sql, session, temp))
        return await _replace_mirror(store, finding, temp)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temp)


async def _write_lines(sql: Sql, session: str, path: str) -> None:
    n = (await sql.dicts("session", id=session))[0]["n"]
    fd = durable_io.DISK.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with durable_io.reported(path):
        try:
            crc = 0
            async for page in pages(sql, n):
                for record in page:
                    data, crc = format.write(session, record, crc)
                    durable_io.DISK.write(fd, data)
            durable_io.DISK.sync(fd)
        finally:
            durable_io.DISK.close(fd)


async def _replace_mirror(store: Store, finding: Finding, temp: str) -> RepairResult:
    def replace(files: MirrorFiles) -> RepairResult:
        path = mirror_path(files.home, finding)
        if finding.signature is not None:
            if signature(path) != finding.signature:
                return RepairResult(UNTOUCHED)
            return RepairResult(RECREATED, [files.replace(temp, path, finding.text)])
        with suppress(FileExistsError):  # the mirror thread may have written the missing file first
            files.disk.link(temp, path)
        files.disk.sync_dir(os.path.dirname(path))
        return RepairResult(RECREATED)

    result = await store.with_mirrors(replace)
    assert result is not None
    await request_mirroring(store, finding.subject)
    return result


async def request_mirroring(store: Store, session: str) -> None:
    """Let the mirror thread append what the mirror of a session lacks."""

    async def nothing(sql: Sql) -> OperationResult:
        return OperationResult(None, session)

    await store.transact(nothing)


async def restore_altered_records(
    store: Store, home: Home, finding: Finding, options: RepairOptions
) -> RepairResult:
    """Restore records that were altered in the database from the mirror, whose checksums prove them."""
    session = finding.subject
    path = mirror_path(home, finding)
    diff = await store.query(lambda sql: _diff(sql, session, path))
    if signature(path) != finding.signature or diff is None or not diff.altered:
        return RepairResult(UNTOUCHED)
    wrong = [diff.differences[seq] for seq in diff.altered]
    stored = [one.stored._asdict() for one in wrong if one.stored is not None]
    kept = [quarantine_bytes(home, f"{session}-{os.urandom(4).hex()}.records", finding.text, encode(stored))]
    # In one step: the views cannot be rebuilt while any row is unreadable.
    lost, kept_rows = await replace_damaged_rows(store, home, finding, [one.proven for one in wrong])
    if diff.joined and diff.beyond:
        await import_mirror(store, session, path, options, proven=True)
    text = f"restored {count_text(len(wrong))} from the mirror{lost_text(lost)}"
    if diff.damage is None and not diff.unproven and not lost:
        await request_mirroring(store, session)
    else:
        written = await write_mirror(store, home, finding)
        text += f"; the mirror: {written.text}"
        kept += [*kept_rows, *written.kept]
    return RepairResult(text, kept, len(wrong), ranges(lost))


async def replace_damaged_rows(
    store: Store, home: Home, finding: Finding, right: Sequence[Record] = ()
) -> tuple[list[int], list[str]]:
    """Write the `right` records, and a notice for each other damaged row.

    Returns the numbers of the lost records and the file that keeps their rows.
    """
    session = finding.subject
    better = {record.seq for record in right}
    rows = await store.query(lambda sql: _damaged_of(sql, session))
    damaged = [record for record in rows if record.row.seq not in better]
    kept = []
    if damaged:
        name = f"{session}-{os.urandom(4).hex()}.rows"
        kept.append(quarantine_bytes(home, name, finding.text, raw_bytes(record.row for record in damaged)))
    if damaged or right:
        notices = replacements(damaged, await store.session(session))
        await replace_records(store, session, [*right, *notices])
    return [record.row.seq for record in damaged], kept


async def _damaged_of(sql: Sql, session: str) -> list[DamagedRecord]:
    n = (await sql.dicts("session", id=session))[0]["n"]
    return await damaged_records(sql, n, session)


async def _diff(sql: Sql, session: str, path: str) -> MirrorDiff | None:
    for row in await sql.rows("heads"):
        if row[1] == session:
            head = SessionHead(*row)
            matched = (await compare(sql, head.n, session, path)).matched
            return await diff_mirror(sql, head, path, matched)
    return None


def quarantine_bytes(home: Home, name: str, why: str, data: bytes) -> str:
    """Write bytes that are replaced in the database to quarantine, with a note."""
    path = os.path.join(home.quarantine, name)
    note = {"from": "the database", "why": why, "at": timestamps.now()}
    durable_io.create(path + ".note.json", [json.dumps(note, indent=1).encode()])
    durable_io.create(path, [data])
    return path
