"""How is a deletion that was cut short finished, or undone?"""

from __future__ import annotations

import os

import msgspec

from holdfast.home import Home
from holdfast.model import changes as c
from holdfast.model.commit import Commit
from holdfast.model.session import Deletion
from holdfast.recovery.findings import Finding, signature
from holdfast.recovery.mirror_diff import SessionHead, compare_mirror, compare_trashed
from holdfast.recovery.mirror_import import RepairOptions
from holdfast.recovery.mirror_repair import request_mirroring, restore_altered_records, write_mirror
from holdfast.recovery.scan import MirrorFile
from holdfast.store.mirror.compare import compare
from holdfast.store.mirror.files import MirrorFiles, remove_tombstone, write_tombstone
from holdfast.store.sql import Sql
from holdfast.store.store import Store

BY = "holdfast heal"


async def finish_deletion(
    store: Store, home: Home, session: str, known: dict[str, str] | None = None
) -> list[str]:
    """Make the log, the tombstone and the files agree that a session is deleted.

    Returns the files that were moved to quarantine.
    """
    header = await store.session(session)
    if header.state != "deleted":
        known = known or {}
        change = c.Delete(
            id=known.get("id", os.urandom(8).hex()),
            by=known.get("by", BY),
            reason=known.get("reason", "its mirror was in the trash"),
        )
        await store.commit(Commit(session, [change]))
        header = await store.session(session)
    deletion = header.deletion
    assert deletion is not None
    # Before the move: a kill in between leaves a mirror in sessions/, which the next start notices.
    # Only a deep comparison reads a mirror that is in the trash.
    kept = [] if signature(home.trashed(session)) else await repair_deleted_mirror(store, home, session)
    await store.with_mirrors(lambda files: _move_to_trash(files, session, deletion))
    return kept


async def repair_deleted_mirror(
    store: Store, home: Home, session: str, *, trashed: bool = False
) -> list[str]:
    """Make the mirror of a deleted session equal its log. Returns the files moved to quarantine."""
    path = home.trashed(session) if trashed else home.mirror(session)
    if signature(path) is None:
        return []
    if not trashed:
        await request_mirroring(store, session)
        await store.with_mirrors(lambda files: None)  # the mirror thread appends what is missing
    finding = await store.query(lambda sql: _mismatch(sql, session, path, trashed))
    if finding is None or finding.action is None:
        return []
    # The database already has its records, as far as they are readable. A database row that the
    # mirror proves to be altered is restored; any other mismatch recreates the file.
    finding = msgspec.structs.replace(finding, evidence={"trashed": trashed})
    if finding.code == "database_altered":
        return list((await restore_altered_records(store, home, finding, RepairOptions())).kept)
    return list((await write_mirror(store, home, finding)).kept)


async def _mismatch(sql: Sql, session: str, path: str, trashed: bool) -> Finding | None:
    n = (await sql.dicts("session", id=session))[0]["n"]
    try:
        if (await compare(sql, n, session, path)).result == "equal":
            return None
        mirror = MirrorFile(path, os.stat(path, follow_symlinks=False))
    except OSError:  # unreadable, or moved by another process: the move reports it
        return None
    head = next(SessionHead(*row) for row in await sql.rows("heads") if row[1] == session)
    return await (compare_trashed(sql, head, mirror) if trashed else compare_mirror(sql, head, mirror, []))


def _move_to_trash(files: MirrorFiles, session: str, deletion: Deletion) -> None:
    if not os.path.lexists(files.home.tombstone(session)):
        write_tombstone(files, session, deletion)
    mirror, trashed = files.home.mirror(session), files.home.trashed(session)
    ours, theirs = signature(mirror), signature(trashed)
    if ours and ours == theirs:
        files.disk.unlink(mirror)  # one file with two names: a move that was cut short
        files.disk.sync_dir(files.home.sessions)
    elif ours and theirs and ours[1] <= theirs[1]:
        files.quarantine(mirror, "the trash has a copy of this deleted session that is not shorter")
    else:
        files.move_to_trash(session)


def take_from_trash(files: MirrorFiles, session: str) -> list[str]:
    """Move the mirror of a live session out of the trash, or to quarantine if the session has another one."""
    files.restore_from_trash(session)
    remove_tombstone(files, session)
    ours, theirs = signature(files.home.mirror(session)), signature(files.home.trashed(session))
    if theirs is None:
        return []
    if ours == theirs:
        files.disk.unlink(files.home.trashed(session))  # a move that was cut short
        files.disk.sync_dir(files.home.trash)
        return []
    return [files.quarantine(files.home.trashed(session), "the session is live and has a mirror")]
