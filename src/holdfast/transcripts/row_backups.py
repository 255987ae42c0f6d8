"""How are one session's rows of a shared database backed up? In a JSONL file that only grows.

The first line names the database. Each line is a row as it was read, or says that a row was deleted. The last
line of a row counts. A torn last line, which a crash may leave, is ignored.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, suppress
from itertools import chain, count
from typing import Any, NamedTuple

import apsw
import msgspec

from holdfast import durable_io, errors
from holdfast.process import open_files
from holdfast.transcripts.file_backups import Change
from holdfast.transcripts.session_rows import (
    DAMAGE,
    Key,
    SessionRow,
    SessionRows,
    columns,
    from_json,
    key_of,
    quoted,
)
from holdfast.transcripts.sqlite_snapshot import open_copy, quick_check, snapshot

FOLDER = "rows"

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class RowPosition(NamedTuple):
    """Where a row is: its table and key, and the offset of its last line in the backup."""

    table: str
    key: Key
    at: int = 0  # where its line begins


class RowComparison(NamedTuple):
    """How a session's rows compare with our backup of them."""

    change: Change
    missing: list[RowPosition]  # the rows to restore, in the order of the tables


class _BackedUpRow(NamedTuple):
    digest: bytes
    at: int


_All = dict[tuple[str, Key], _BackedUpRow]


class RowBackup:
    """The backup of one session's rows in one database."""

    def __init__(self, path: str, database: str):
        self.path = path
        self.database = database

    @classmethod
    def of(cls, folder: str, database: str) -> RowBackup:
        """The backup of that database in a session's folder, or where it would be."""
        for backup in row_backups_in(folder):
            if backup.database == database:
                return backup
        base = os.path.basename(database)
        names = chain([f"{base}.jsonl"], (f"{number}-{base}.jsonl" for number in count(2)))
        paths = (os.path.join(folder, FOLDER, name) for name in names)
        return cls(next(path for path in paths if not os.path.exists(path)), database)

    def update(self, share: SessionRows) -> int:
        """Append new states and deletions; return the number of bytes."""
        before = self._size()
        lines = self._news(share)
        if (first := next(lines, None)) is None:
            return 0
        durable_io.make_folder(os.path.dirname(self.path))
        with open(self.path, "ab", opener=durable_io.private) as file:
            if not before:
                file.write(_encode({"database": self.database}) + b"\n")
            elif not _ends_whole(self.path):
                file.write(b"\n")
            for line in chain([first], lines):
                file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return self._size() - before

    def compare(self, share: SessionRows) -> RowComparison:
        """Compare the rows with the backup. Raises apsw.Error if the database cannot be read."""
        before = self._known_rows(share)
        there: set[tuple[str, Key]] = set()
        changed = False
        for row in share.rows():
            position = (row.table, row.key)
            there.add(position)
            changed = changed or position not in before or before[position].digest != _digest(_line(row))
        missing = {position for position in before if position not in there}
        if not any(share.is_lasting(table) for table, _ in missing):
            return RowComparison("grown" if changed else "same", [])
        if share.own in missing:
            return RowComparison("missing", _rows_to_restore(share, before, missing))
        if any(share.is_lasting(table) and (table, key) not in before for table, key in there):
            return RowComparison("rewritten", [])
        return RowComparison("shrunk", _rows_to_restore(share, before, missing))

    def rows(self, positions: Iterable[RowPosition]) -> Iterator[SessionRow]:
        """The last states of these rows."""
        with open(self.path, "rb") as file:
            for position in positions:
                file.seek(position.at)
                yield SessionRow(position.table, position.key, _decode(file.readline())["row"])

    def _news(self, share: SessionRows) -> Iterator[bytes]:
        known_rows = self._known_rows(share)
        there: set[tuple[str, Key]] = set()
        try:
            for row in share.rows():
                there.add((row.table, row.key))
                line = _line(row)
                before = known_rows.get((row.table, row.key))
                if before is None or before.digest != _digest(line):
                    yield line
        except DAMAGE:  # keep what was read; nothing is known to be deleted
            return
        if share.own not in there:  # deleted: keep its last state
            return
        keys = {table.name: table.key for table in share.tables}
        for table, key in (position for position in known_rows if position not in there):
            yield _encode({"table": table, "gone": dict(zip(keys[table], key, strict=True))})

    def _known_rows(self, share: SessionRows) -> _All:
        """The rows that existed at the last backup."""
        tables = {table.name: table for table in share.tables}
        rows: _All = {}
        for at, line in _lines(self.path):
            change = _parse_change(line)
            table = tables.get(change.get("table", ""))
            if table is None:
                continue
            if isinstance(values := change.get("row"), dict):
                rows[(table.name, key_of(table, values))] = _BackedUpRow(_digest(line), at)
            elif isinstance(values := change.get("gone"), dict):
                rows.pop((table.name, key_of(table, values)), None)
        return rows

    def _size(self) -> int:
        return os.path.getsize(self.path) if os.path.exists(self.path) else 0


def row_backups_in(folder: str) -> list[RowBackup]:
    """The row backups in a session's folder."""
    backups = []
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(os.path.join(folder, FOLDER))):
            path = os.path.join(folder, FOLDER, name)
            _, first = next(_lines(path), (0, b""))
            if isinstance(database := _parse_change(first).get("database"), str):
                backups.append(RowBackup(path, database))
    return backups


def _rows_to_restore(
    share: SessionRows, before: _All, missing: Collection[tuple[str, Key]]
) -> list[RowPosition]:
    """The rows to restore.

    A row that may be deleted alone comes back only if the row above it was deleted too.
    """
    back: dict[str, list[RowPosition]] = {}
    for table in share.tables:
        if table.under is None or back.get(table.under):
            positions = (position for position in missing if position[0] == table.name)
            back[table.name] = [RowPosition(*position, before[position].at) for position in positions]
    return [position for table in share.tables for position in back.get(table.name, ())]


def _line(row: SessionRow) -> bytes:
    return _encode({"table": row.table, "row": row.values})


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


def _parse_change(line: bytes) -> dict[str, Any]:
    try:
        return _decode(line)
    except msgspec.DecodeError:
        return {}


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the offset of each whole line, and the line."""
    at = 0
    with suppress(FileNotFoundError), open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield at, line[:-1]
            at += len(line)


def _ends_whole(path: str) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


# --- Restoring rows into another tool's database: all of them, or none

PATIENCE_MS = 2000


def restore_rows(share: SessionRows, rows: Iterable[SessionRow]) -> None:
    """Insert these rows. Existing rows and all rows of other sessions stay as they are."""
    _refuse(share)
    try:
        with closing(apsw.Connection(share.database, flags=apsw.SQLITE_OPEN_READWRITE)) as db:
            db.set_busy_timeout(PATIENCE_MS)
            db.execute("pragma foreign_keys = on")
            with db:
                db.execute("pragma defer_foreign_keys = on")
                _insert(db, share, rows)
    except apsw.BusyError:
        raise errors.StoreBusy(
            f"{share.database} is locked by its own tool", hint="stop the tool first"
        ) from None
    except apsw.Error as problem:
        reason = " ".join(str(problem).split())
        raise errors.Refused(
            f"{share.database} refuses these rows, and nothing was changed: {reason}",
            hint="our backup is complete; `holdfast log` shows the conversation",
        ) from None


def _refuse(share: SessionRows) -> None:
    if not os.path.isfile(share.database):
        raise errors.Refused(
            f"{share.database} does not exist; only its tool can create it",
            hint="start the tool once, then try again",
        )
    if pids := open_files.holders(share.database):
        raise errors.SessionRunning(
            f"{share.database} is in use (process {pids[0]})", hint="stop its tool, then try again"
        )
    with snapshot(share.database) as copy, closing(open_copy(copy)) as db:
        # A search index may be reported as malformed where the tool itself stored a NUL; it holds no session.
        broken = [words for words in quick_check(db) if "_fts" not in words and "inverted" not in words]
    if broken:
        raise errors.Refused(
            f"{share.database} is damaged, so nothing is written to it: {broken[0]}",
            hint="repair it with its own tool first",
        )


def _insert(db: apsw.Connection, share: SessionRows, rows: Iterable[SessionRow]) -> None:
    tables = {table.name: table for table in share.tables}
    names = {table.name: set(columns(db, table.name)) for table in share.tables}
    for row in rows:
        # A later version of the tool may have dropped a column.
        values = {name: value for name, value in row.values.items() if name in names[row.table]}
        parts = [from_json(value) for value in values.values()]
        shared = " or ignore" if tables[row.table].owner is None else ""
        db.execute(
            f"insert{shared} into {row.table} ({', '.join(map(quoted, values))})"
            f" values ({', '.join(part for part, _ in parts)})",
            [value for _, value in parts],
        )
    for table in share.tables:
        if table.loose is not None and table.loose in names[table.name]:
            loose, key = quoted(table.loose), quoted(table.key[0])
            db.execute(
                f"update {table.name} set {loose} = null where {key} = ?"
                f" and {loose} not in (select {key} from {table.name})",
                (share.native_id,),
            )
