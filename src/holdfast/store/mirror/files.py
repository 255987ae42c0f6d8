"""The mirror files of a home: appended to after each commit, never rewritten in place.

A lock on the folder lets one process at a time change them.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast import durable_io, errors, timestamps
from holdfast.durable_io import DISK, Disk
from holdfast.home import Home
from holdfast.model.json_codec import encode
from holdfast.model.session import Deletion


class MirrorFiles:
    """Append, sync and move mirrors. The caller holds `lock()`."""

    def __init__(self, home: Home, disk: Disk = DISK):
        self.home = home
        self.disk = disk
        self._lock_fd: int | None = None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only process that touches the mirrors."""
        if self._lock_fd is None:
            path = os.path.join(self.home.sessions, ".lock")
            with durable_io.reported(path):
                self._lock_fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock_fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the lock file."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def append(self, session: str, offset: int, data: bytes) -> None:
        """Append `data` to the file, whose size is `offset`. At 0 the file is created."""
        path, flags = self.home.mirror(session), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
        if offset == 0:
            flags |= os.O_CREAT | os.O_EXCL
        fd = self.disk.open(path, flags)
        try:
            try:
                self.disk.write(fd, data)
            except OSError:
                # Leave no half line, and no empty file that would block the next try.
                if offset == 0:
                    self.disk.unlink(path)
                else:
                    self.disk.truncate(fd, offset)
                raise
        finally:
            self.disk.close(fd)

    def size(self, session: str) -> int | None:
        """The size of the file. None if it is missing, StoreUnreadable if it is not a file."""
        path = self.home.mirror(session)
        try:
            status = os.stat(path, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):  # a link may lead out of the home, a fifo would block
            raise errors.StoreUnreadable(f"{path} is not a file, so no mirror can be written there")
        return status.st_size

    def sync(self, session: str) -> os.stat_result:
        """Sync the file to disk. Returns its status."""
        fd = self.disk.open(self.home.mirror(session), os.O_RDONLY | os.O_NOFOLLOW)
        try:
            self.disk.sync(fd)
            return os.fstat(fd)
        finally:
            self.disk.close(fd)

    def sync_names(self) -> None:
        """Sync the names of new mirror files to disk."""
        self.disk.sync_dir(self.home.sessions)

    def move_to_trash(self, session: str) -> None:
        """Move a deleted session's mirror to the trash. A file that is already there goes to quarantine."""
        old, new = self.home.mirror(session), self.home.trashed(session)
        if not os.path.lexists(old):
            return
        if os.path.lexists(new):
            self.quarantine(new, "replaced in the trash")
        self.sync(session)  # nothing reads it again before a restore
        durable_io.move(old, new, self.disk)

    def restore_from_trash(self, session: str) -> None:
        """Move a deleted session's mirror back, before its restore is recorded."""
        old, new = self.home.trashed(session), self.home.mirror(session)
        if os.path.lexists(old) and not os.path.lexists(new):
            durable_io.move(old, new, self.disk)

    def quarantine(self, path: str, why: str) -> str:
        """Move a file to quarantine, with a note of when and why. Returns its new path."""
        kept = self._note_quarantine(path, why)
        durable_io.move(path, kept, self.disk)
        return kept

    def replace(self, new: str, path: str, why: str) -> str:
        """Put the file `new` in place of `path`, which goes to quarantine. Returns its path there.

        `path` always names one of the two: a mirror that is missing for a moment would, after a kill,
        look like one that was cleared from the trash.
        """
        kept = self._note_quarantine(path, why)
        with durable_io.reported(kept):
            self.disk.link(path, kept)
            self.disk.sync_dir(self.home.quarantine)
            self.disk.rename(new, path)
            self.disk.sync_dir(os.path.dirname(path))
        return kept

    def _note_quarantine(self, path: str, why: str) -> str:
        name = f"{timestamps.now().replace(':', '')}-{os.path.basename(path)}"
        kept = os.path.join(self.home.quarantine, name)
        note = json.dumps({"from": path, "why": why, "at": timestamps.now()}, indent=1)
        durable_io.create(kept + ".note.json", [note.encode()], self.disk)
        return kept


def seal(seq: int, status: os.stat_result) -> str:
    """Identifies a mirror that equals its log up to `seq`, so that the next start need not read it."""
    return f"{seq}/{status.st_size}/{status.st_mtime_ns}"


# --- Tombstones: files that record that a session is deleted


def write_tombstone(files: MirrorFiles, session: str, deletion: Deletion) -> bool:
    """Write the tombstone of a deleted session."""
    path = files.home.tombstone(session)
    if os.path.lexists(path):  # from a restore that was cut short
        files.quarantine(path, "a newer deletion")
    durable_io.create(path, [encode({"session": session, "deletion": deletion}) + b"\n"], files.disk)
    return True


def remove_tombstone(files: MirrorFiles, session: str) -> None:
    """Remove the tombstone of a deletion that was refused or undone."""
    with suppress(FileNotFoundError):
        files.disk.unlink(files.home.tombstone(session))
    files.disk.sync_dir(files.home.trash)
