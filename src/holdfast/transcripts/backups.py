"""What do Holdfast's backups of one native session hold? Its files, and its rows of a shared database."""

from __future__ import annotations

import logging
from typing import NamedTuple

import apsw

from holdfast import errors
from holdfast.transcripts import file_backups, row_backups
from holdfast.transcripts.file_backups import Change, FileBackups, FileCopy
from holdfast.transcripts.reader import SessionRef, TranscriptReader
from holdfast.transcripts.row_backups import RowBackup, RowComparison, restore_rows
from holdfast.transcripts.session_rows import SessionRows

log = logging.getLogger(__name__)


class BackupDifference(NamedTuple):
    """How one file or database compares with our backup of it."""

    path: str
    copy: str
    change: Change
    rows: int | None = None  # for a database: how many rows `restore` inserts


class TranscriptBackup:
    """The backups of one native session."""

    def __init__(self, folder: str, native_id: str, reader: TranscriptReader):
        self.reader = reader
        self._native_id = native_id
        self._folder = folder
        self._files = FileBackups(folder)

    def update(self, ref: SessionRef, *, level: bool = False) -> int:
        """Copy what is new; return the number of bytes. `level`: our log already holds all of its content."""
        copied = self._files.update(self.reader.files(ref), level=level)
        if (database := self.reader.database(ref)) is not None:
            rows = self.reader.session_rows(database, self._native_id)
            try:
                copied += RowBackup.of(self._folder, database).update(rows)
            except (errors.StoreUnreadable, errors.StoreBusy, FileNotFoundError) as problem:
                log.warning("cannot back up the rows of %s: %s", self._native_id, problem)  # not fatal
        return copied

    def is_level(self, ref: SessionRef) -> bool:
        """Whether our log holds all of its content, without reading it. False for a database: unknown."""
        if self.reader.database(ref) is not None:
            return False
        return self._files.is_level(self.reader.files(ref))

    def exists(self) -> bool:
        """Whether any backup exists."""
        return bool(self._files.known() or row_backups.row_backups_in(self._folder))

    def differences(self) -> list[BackupDifference]:
        """Compare everything that was backed up. Raises StoreUnreadable if a database cannot be read."""
        differences = [
            BackupDifference(known.original, known.copy, change) for known, change in self._files.changes()
        ]
        for copy, share in self._rows():
            change, missing = _compared(copy, share)
            differences.append(BackupDifference(copy.database, copy.path, change, len(missing)))
        return differences

    def restore(self, what: BackupDifference, at: str) -> str | None:
        """Restore one backup. A replaced file is kept, and its new path is returned. Rows replace nothing."""
        if what.rows is None:
            return file_backups.restore(FileCopy(what.path, what.copy), at)
        for copy, share in self._rows():
            if copy.path == what.copy:
                restore_rows(share, copy.rows(_compared(copy, share).missing))
        return None

    def _rows(self) -> list[tuple[RowBackup, SessionRows]]:
        rows_in = self.reader.session_rows
        return [
            (copy, rows_in(copy.database, self._native_id))
            for copy in row_backups.row_backups_in(self._folder)
        ]


def _compared(copy: RowBackup, share: SessionRows) -> RowComparison:
    try:
        return copy.compare(share)
    except FileNotFoundError:
        return RowComparison("missing", [])
    except (apsw.Error, OSError) as problem:
        reason = " ".join(str(problem).split())
        raise errors.StoreUnreadable(f"{share.database} cannot be read: {reason}") from problem
