"""Which repair belongs to each finding? Nothing is overwritten: replaced bytes go to quarantine."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from holdfast import durable_io, errors
from holdfast.home import Home
from holdfast.model import changes as c
from holdfast.model.commit import Commit
from holdfast.model.task import ACTIVE
from holdfast.recovery.deletion import finish_deletion, repair_deleted_mirror, take_from_trash
from holdfast.recovery.findings import Done, Finding, signature
from holdfast.recovery.merge import count_text, lost_text, ranges
from holdfast.recovery.mirror_import import ImportedRecords, RepairOptions, import_mirror, import_mirrors
from holdfast.recovery.mirror_repair import (
    RepairResult,
    mirror_path,
    quarantine_bytes,
    replace_damaged_rows,
    request_mirroring,
    restore_altered_records,
    write_mirror,
)
from holdfast.recovery.restore import rebuild_views
from holdfast.store.mirror.files import remove_tombstone
from holdfast.store.sql import Sql
from holdfast.store.store import Store


async def repair(
    store: Store,
    home: Home,
    finding: Finding,
    options: RepairOptions = RepairOptions(),  # noqa: B008
) -> Done:
    """Run the repair of a finding."""
    result = await REPAIRS[finding.code](store, home, finding, options)
    return Done(
        finding=finding.id,
        code=finding.code,
        subject=finding.subject,
        result=result.text,
        kept=list(result.kept),
        recovered=result.recovered,
        lost=list(result.lost),
    )


# --- mirrors of live sessions


async def recreate_mirror(store: Store, home: Home, finding: Finding, options: RepairOptions) -> RepairResult:
    """Recreate the mirror from the database, after the records that only the mirror has are restored."""
    session = finding.subject
    if finding.evidence.get("new"):
        await import_mirror(store, session, mirror_path(home, finding), options, proven=True)
        if (await store.session(session)).state == "deleted" and not finding.evidence.get("trashed"):
            return RepairResult("deleted, as its mirror says", await finish_deletion(store, home, session))
    return await write_mirror(store, home, finding)


async def append_missing(store: Store, home: Home, finding: Finding, options: RepairOptions) -> RepairResult:
    """Let the mirror thread append the records that the mirror lacks."""
    await request_mirroring(store, finding.subject)
    await store.with_mirrors(lambda files: None)
    return RepairResult("appended the missing records")


async def restore_records(store: Store, home: Home, finding: Finding, options: RepairOptions) -> RepairResult:
    """Restore the records that only the mirror has to the database."""
    session = finding.subject
    imported = await import_mirror(store, session, mirror_path(home, finding), options, proven=True)
    kept: list[str] = []
    if (await store.session(session)).state == "deleted":
        kept = await finish_deletion(store, home, session)
    return _restored(imported, kept=kept)


async def restore_altered(store: Store, home: Home, finding: Finding, options: RepairOptions) -> RepairResult:
    """Restore altered records from the mirror, and the deletion if the mirror's newer records have one."""
    result = await restore_altered_records(store, home, finding, options)
    if finding.evidence.get("trashed") or (await store.session(finding.subject)).state != "deleted":
        return result
    return result._replace(kept=[*result.kept, *await finish_deletion(store, home, finding.subject)])


async def replace_damaged_records(
    store: Store, home: Home, finding: Finding, options: RepairOptions
) -> RepairResult:
    """Replace each row that is not a record with a notice, also in a mirror that has the row."""
    path = mirror_path(home, finding)
    lost, kept = await replace_damaged_rows(store, home, finding)
    if lost and finding.evidence["mirror_follows"] and signature(path) is not None:
        again = msgspec.structs.replace(finding, signature=signature(path))
        kept += (await recreate_mirror(store, home, again, options)).kept
    text = f"replaced {count_text(len(lost))} with a notice{lost_text(lost)}"
    return RepairResult(text, kept, 0, ranges(lost))


# --- sessions that the database does not have


async def restore_session(store: Store, home: Home, finding: Finding, options: RepairOptions) -> RepairResult:
    """Restore a whole session from its mirror. A damaged file is then recreated."""
    session = finding.subject
    imported = await import_mirror(store, session, home.mirror(session), options)
    if (await store.session(session)).state == "deleted":
        # Its own log says so; only the tombstone and the move are missing.
        return _restored(imported, "as deleted", await finish_deletion(store, home, session))
    if not imported.damaged:
        return _restored(imported)
    written = await recreate_mirror(store, home, finding, options)
    return _restored(imported, "from a damaged mirror", written.kept)


async def restore_deleted_session(
    store: Store, home: Home, finding: Finding, options: RepairOptions
) -> RepairResult:
    """Restore a deleted session to the database, where it stays deleted until a user restores it."""
    session, deletion = finding.subject, finding.evidence.get("deletion")
    in_trash_only = signature(home.mirror(session)) is None
    imported = await import_mirrors(store, home, session, options)
    header = await store.session(session)
    # Without a tombstone the log decides, unless the file is only in the trash.
    restored = (
        header.undone == deletion["id"] if deletion else not (in_trash_only or finding.evidence.get("grave"))
    )
    if header.state != "deleted" and restored:
        await store.with_mirrors(lambda files: take_from_trash(files, session))
        kept = [home.mirror(session)] if imported.damaged else []
        return _restored(imported, "its log says that it was restored", kept)
    await _interrupt_tasks(store, session)
    kept = await finish_deletion(store, home, session, deletion)
    if imported.damaged:
        kept += await repair_deleted_mirror(store, home, session, trashed=True)
    return _restored(imported, "as deleted", kept)


def _restored(imported: ImportedRecords, how: str = "", kept: Sequence[str] = ()) -> RepairResult:
    text = f"restored {count_text(imported.records)} to the database{', ' if how else ''}{how}"
    return RepairResult(text + lost_text(imported.lost), kept, imported.records, ranges(imported.lost))


async def _interrupt_tasks(store: Store, session: str) -> None:
    """End the tasks of a deleted session whose last records are lost.

    A session with a running task cannot be deleted, so each task had ended.
    """
    reason = "the session was deleted after this task; how the task ended is lost"
    change = c.SetStatus(status="interrupted", reason=reason)
    for task in await store.tasks(session=session, limit=1 << 31):
        if task.status in ACTIVE:
            await store.commit(Commit(session, [change], task=task.id, generation=task.generation))


# --- deletions that were cut short


async def delete(store: Store, home: Home, finding: Finding, options: RepairOptions) -> RepairResult:
    """Finish a deletion that was cut short, or that an old backup of the database does not have."""
    session = finding.subject
    await import_mirrors(store, home, session, options, proven=True)
    try:
        kept = await finish_deletion(store, home, session, finding.evidence.get("deletion"))
    except errors.SessionRunning as running:
        path = home.tombstone(session)
        tombstone = await store.with_mirrors(lambda files: files.quarantine(path, "the session was running"))
        await store.with_mirrors(lambda files: take_from_trash(files, session))
        text = f"not deleted ({running}); the tombstone went to quarantine"
        return RepairResult(text, [tombstone] if tombstone else [])
    return RepairResult("deleted, as its tombstone says", kept)


async def decide_trashed(store: Store, home: Home, finding: Finding, options: RepairOptions) -> RepairResult:
    """A live session has a mirror in the trash and no tombstone: its log decides if it is deleted."""
    session = finding.subject
    await import_mirrors(store, home, session, options, proven=True)
    if (await store.session(session)).state == "deleted":
        return RepairResult("deleted, as its mirror says", await finish_deletion(store, home, session))
    kept = await store.with_mirrors(lambda files: take_from_trash(files, session))
    return RepairResult("the session is live, so its mirror was moved out of the trash", kept or [])


async def move_to_trash(store: Store, home: Home, finding: Finding, options: RepairOptions) -> RepairResult:
    """Move the mirror of a deleted session to the trash again, unless its records show a restore."""
    session, deletion = finding.subject, finding.evidence.get("deletion")
    await import_mirrors(store, home, session, options, proven=True)
    header = await store.session(session)
    if header.state != "deleted" and (deletion is None or header.undone == deletion["id"]):
        await store.with_mirrors(lambda files: take_from_trash(files, session))
        return RepairResult("restored, as its mirror says")
    return RepairResult("moved to the trash", await finish_deletion(store, home, session, deletion))


async def write_missing_tombstone(
    store: Store, home: Home, finding: Finding, options: RepairOptions
) -> RepairResult:
    """Write the tombstone of a session that is deleted in the database."""
    return RepairResult("wrote the tombstone", await finish_deletion(store, home, finding.subject))


async def remove_stale_tombstone(
    store: Store, home: Home, finding: Finding, options: RepairOptions
) -> RepairResult:
    """Remove the tombstone of a session that was restored."""
    await store.with_mirrors(lambda files: remove_tombstone(files, finding.subject))
    return RepairResult("removed the tombstone")


# --- the rest


async def remove_temp_file(
    store: Store, home: Home, finding: Finding, options: RepairOptions
) -> RepairResult:
    """Remove a temporary file of a dead process."""
    with suppress(FileNotFoundError):
        durable_io.DISK.unlink(finding.evidence["file"])
    return RepairResult("removed it")


async def repair_views(store: Store, home: Home, finding: Finding, options: RepairOptions) -> RepairResult:
    """Rebuild header, tokens and tasks from the log. Unreadable metadata goes to quarantine."""
    session = finding.subject
    kept = []
    if finding.code == "metadata_unreadable":
        stored = await store.query(lambda sql: _stored_metadata(sql, session))
        name = f"{session}-{os.urandom(4).hex()}.metadata"
        kept.append(quarantine_bytes(home, name, finding.text, stored))
    await rebuild_views(store, session)
    return RepairResult("rebuilt from the log", kept)


async def _stored_metadata(sql: Sql, session: str) -> bytes:
    n = (await sql.dicts("session", id=session))[0]["n"]
    return bytes((await sql.rows("metadata", n=n))[0][0])


Repair = Callable[[Store, Home, Finding, RepairOptions], Awaitable[RepairResult]]

REPAIRS: dict[str, Repair] = {
    "mirror_missing": recreate_mirror,
    "mirror_empty": recreate_mirror,
    "mirror_short": recreate_mirror,
    "mirror_torn": recreate_mirror,
    "mirror_damaged": recreate_mirror,
    "mirror_wrong_session": recreate_mirror,
    "conflict": recreate_mirror,
    "database_altered": restore_altered,
    "record_damaged": replace_damaged_records,
    "mirror_behind": append_missing,
    "database_behind": restore_records,
    "session_missing": restore_session,
    "deleted_not_in_database": restore_deleted_session,
    "delete_unfinished": delete,
    "mirror_in_trash": decide_trashed,
    "deleted_reappeared": move_to_trash,
    "tombstone_missing": write_missing_tombstone,
    "tombstone_stale": remove_stale_tombstone,
    "temp_litter": remove_temp_file,
    "metadata_unreadable": repair_views,
    "view_drift": repair_views,
}
