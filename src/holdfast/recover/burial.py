"""Into the trash and out of it again: log, tombstone and files made of one mind."""

from __future__ import annotations

import os

from holdfast.model import change as c
from holdfast.model.commit import Commit
from holdfast.model.session import Deletion
from holdfast.recover.finding import signature
from holdfast.store.base import BaseStore
from holdfast.store.mirror.files import MirrorFiles
from holdfast.store.mirror.tombstone import remove_tombstone, write_tombstone

BY = "holdfast heal"


async def finish_deletion(store: BaseStore, session: str, known: dict[str, str] | None = None) -> None:
    """Make log, tombstone and files agree that a session is deleted."""
    header = await store.session(session)
    if header.state != "deleted":
        known = known or {}
        change = c.Delete(
            id=known.get("id", os.urandom(8).hex()),
            by=known.get("by", BY),
            reason=known.get("reason", "its files lay in the trash"),
        )
        await store.commit(Commit(session, [change]))
        header = await store.session(session)
    deletion = header.deletion
    assert deletion is not None
    await store.with_mirrors(lambda files: _entomb(files, session, deletion))


def _entomb(files: MirrorFiles, session: str, deletion: Deletion) -> None:
    if not os.path.lexists(files.home.tombstone(session)):
        write_tombstone(files, session, deletion)
    mirror, trashed = files.home.mirror(session), files.home.trashed(session)
    ours, theirs = signature(mirror), signature(trashed)
    if ours and ours == theirs:
        files.disk.unlink(mirror)  # one file with two names: a move that was cut short
        files.disk.sync_dir(files.home.sessions)
    elif ours and theirs and ours[1] <= theirs[1]:
        files.quarantine(mirror, "the trash has no less of this deleted session")
    else:
        files.bury(session)


def unearth(files: MirrorFiles, session: str) -> list[str]:
    """Out of the trash with a live session; if it has a mirror already, the other one is kept aside."""
    files.exhume(session)
    remove_tombstone(files, session)
    ours, theirs = signature(files.home.mirror(session)), signature(files.home.trashed(session))
    if theirs is None:
        return []
    if ours == theirs:
        files.disk.unlink(files.home.trashed(session))  # a move that was cut short
        files.disk.sync_dir(files.home.trash)
        return []
    return [files.quarantine(files.home.trashed(session), "the session lives and has a mirror")]
