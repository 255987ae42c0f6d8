"""Our copies of one native session, whatever it consists of: files, and rows of a database."""

from __future__ import annotations

import logging
from typing import NamedTuple

import apsw

from holdfast import errors
from holdfast.transcripts import file_backups, row_backups
from holdfast.transcripts.file_backups import Change, FileBackups, FileCopy
from holdfast.transcripts.reader import HasSharedDatabase, SessionRef, TranscriptReader
from holdfast.transcripts.row_backups import RowBackup, RowComparison, SessionRows, put_back

log = logging.getLogger(__name__)


class BackupDifference(NamedTuple):
    """How one file or database compares with our copy of what is the session's in it."""

    path: str
    copy: str
    change: Change
    rows: int | None = None  # of a database: how many rows are to be put back


class TranscriptBackup:
    """The copies of one native session."""

    def __init__(self, folder: str, native_id: str, reader: TranscriptReader):
        self.reader = reader
        self._sharing = reader if isinstance(reader, HasSharedDatabase) else None
        self._native_id = native_id
        self._folder = folder
        self._files = FileBackups(folder)

    def take(self, place: SessionRef, *, level: bool = False) -> int:
        """Copy what is new; how many bytes that were. `level`: our log has all that it tells."""
        copied = self._files.take(self.reader.files(place), level=level)
        if self._sharing is not None and (database := self._sharing.database(place)) is not None:
            share = self._sharing.share(database, self._native_id)
            try:
                copied += RowBackup.of(self._folder, database).take(share)
            except (errors.StoreUnreadable, errors.StoreBusy, FileNotFoundError) as problem:
                log.warning("no rows of %s were copied: %s", self._native_id, problem)  # that stops no run
        return copied

    def is_level(self, place: SessionRef) -> bool:
        """Whether our log has all that it tells, without reading it; of a database that is not known."""
        if self._sharing is not None and self._sharing.database(place) is not None:
            return False
        return self._files.is_level(self.reader.files(place))

    def exists(self) -> bool:
        """Whether there is any copy."""
        return bool(self._files.known() or row_backups.known(self._folder))

    def differences(self) -> list[BackupDifference]:
        """How all that was copied compares with its copy; StoreUnreadable if a database cannot be read."""
        found = [
            BackupDifference(known.original, known.copy, change) for known, change in self._files.changes()
        ]
        for copy, share in self._rows():
            change, gone = _compared(copy, share)
            found.append(BackupDifference(copy.database, copy.path, change, len(gone)))
        return found

    def restore(self, what: BackupDifference, at: str) -> str | None:
        """Put it back; what lay there is kept, and where is given back. Rows replace nothing."""
        if what.rows is None:
            return file_backups.restore(FileCopy(what.path, what.copy), at)
        for copy, share in self._rows():
            if copy.path == what.copy:
                put_back(share, copy.rows(_compared(copy, share).gone))
        return None

    def _rows(self) -> list[tuple[RowBackup, SessionRows]]:
        if self._sharing is None:
            return []
        share = self._sharing.share
        return [(copy, share(copy.database, self._native_id)) for copy in row_backups.known(self._folder)]


def _compared(copy: RowBackup, share: SessionRows) -> RowComparison:
    try:
        return copy.compare(share)
    except FileNotFoundError:
        return RowComparison("missing", [])
    except (apsw.Error, OSError) as problem:
        said = " ".join(str(problem).split())
        raise errors.StoreUnreadable(f"{share.database} cannot be read: {said}") from problem
