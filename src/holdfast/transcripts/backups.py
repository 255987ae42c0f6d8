"""Our copies of one native session, whatever it consists of: files, and rows of a database."""

from __future__ import annotations

import logging
from typing import NamedTuple

import apsw

from holdfast import errors
from holdfast.transcripts import file_backups, row_backups
from holdfast.transcripts.file_backups import Change, Copies, Copy
from holdfast.transcripts.reader import Place, Reader, Sharing
from holdfast.transcripts.row_backups import Comparison, RowCopy, Share, put_back

log = logging.getLogger(__name__)


class Difference(NamedTuple):
    """How one file or database compares with our copy of what is the session's in it."""

    path: str
    copy: str
    change: Change
    rows: int | None = None  # of a database: how many rows are to be put back


class Native:
    """The copies of one native session."""

    def __init__(self, folder: str, native_id: str, reader: Reader):
        self.reader = reader
        self._sharing = reader if isinstance(reader, Sharing) else None
        self._native_id = native_id
        self._folder = folder
        self._files = Copies(folder)

    def take(self, place: Place, *, level: bool = False) -> int:
        """Copy what is new; how many bytes that were. `level`: our log has all that it tells."""
        copied = self._files.take(self.reader.files(place), level=level)
        if self._sharing is not None and (database := self._sharing.database(place)) is not None:
            share = self._sharing.share(database, self._native_id)
            try:
                copied += RowCopy.of(self._folder, database).take(share)
            except (errors.StoreUnreadable, errors.StoreBusy, FileNotFoundError) as problem:
                log.warning("no rows of %s were copied: %s", self._native_id, problem)  # that stops no run
        return copied

    def is_level(self, place: Place) -> bool:
        """Whether our log has all that it tells, without reading it; of a database that is not known."""
        if self._sharing is not None and self._sharing.database(place) is not None:
            return False
        return self._files.is_level(self.reader.files(place))

    def exists(self) -> bool:
        """Whether there is any copy."""
        return bool(self._files.known() or row_backups.known(self._folder))

    def differences(self) -> list[Difference]:
        """How all that was copied compares with its copy; StoreUnreadable if a database cannot be read."""
        found = [Difference(known.original, known.copy, change) for known, change in self._files.changes()]
        for copy, share in self._rows():
            change, gone = _compared(copy, share)
            found.append(Difference(copy.database, copy.path, change, len(gone)))
        return found

    def restore(self, what: Difference, at: str) -> str | None:
        """Put it back; what lay there is kept, and where is given back. Rows replace nothing."""
        if what.rows is None:
            return file_backups.restore(Copy(what.path, what.copy), at)
        for copy, share in self._rows():
            if copy.path == what.copy:
                put_back(share, copy.rows(_compared(copy, share).gone))
        return None

    def _rows(self) -> list[tuple[RowCopy, Share]]:
        if self._sharing is None:
            return []
        share = self._sharing.share
        return [(copy, share(copy.database, self._native_id)) for copy in row_backups.known(self._folder)]


def _compared(copy: RowCopy, share: Share) -> Comparison:
    try:
        return copy.compare(share)
    except FileNotFoundError:
        return Comparison("missing", [])
    except (apsw.Error, OSError) as problem:
        said = " ".join(str(problem).split())
        raise errors.StoreUnreadable(f"{share.database} cannot be read: {said}") from problem
