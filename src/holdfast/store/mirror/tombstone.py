"""Tombstones: the files that say on disk that a session was deleted."""

from __future__ import annotations

import os
from contextlib import suppress

from holdfast import fsio
from holdfast.model.session import Deletion
from holdfast.model.text import encode
from holdfast.store.mirror.files import MirrorFiles


def write_tombstone(files: MirrorFiles, session: str, deletion: Deletion) -> bool:
    """Say on disk that a session is deleted."""
    path = files.home.tombstone(session)
    if os.path.lexists(path):  # left by a restore that was cut short
        files.quarantine(path, "a newer deletion")
    fsio.create(path, [encode({"session": session, "deletion": deletion}) + b"\n"], files.disk)
    return True


def remove_tombstone(files: MirrorFiles, session: str) -> None:
    """Take back a tombstone: its deletion was refused or undone."""
    with suppress(FileNotFoundError):
        files.disk.unlink(files.home.tombstone(session))
    files.disk.sync_dir(files.home.trash)
