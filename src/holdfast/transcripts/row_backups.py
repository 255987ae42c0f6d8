"""Our copy of one session's rows: a file of JSON lines that only grows, so that no state seen is ever lost.

The first line names the database. A line is a row as it was seen, or says that a row was gone; the last
line of a row counts. A torn last line, which a crash may leave, counts for nothing.
"""

from __future__ import annotations

import base64
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
from holdfast.transcripts.sqlite_snapshot import SnapshotCache, open_copy, quick_check, snapshot

DAMAGE = (apsw.Error, UnicodeDecodeError)

Key = tuple[Any, ...]
Values = dict[str, Any]


class SessionTable(NamedTuple):
    """One table that has rows of a session."""

    name: str
    key: tuple[str, ...]
    owner: str | None = None  # the column with the session's id; without one, `where` tells its rows
    under: str | None = None  # put back only together with a row of that table, else it may go by itself
    where: str = ""
    loose: str | None = None  # names another row of this table, and is emptied where that is gone


class SessionRow(NamedTuple):
    """One row; `values` are what `plain` makes of them."""

    table: str
    key: Key
    values: Values


class SessionRows:
    """The rows of one session in one database, read from a private copy of it."""

    def __init__(
        self, database: str, native_id: str, tables: tuple[SessionTable, ...], mine: str, kept: SnapshotCache
    ):
        """`mine` selects the ids that are the session's, `?1` being its own; the first table has them."""
        self.database = database
        self.native_id = native_id
        self.tables = tables
        self._mine = mine
        self._kept = kept

    @property
    def own(self) -> tuple[str, Key]:
        """Where the session's own row is."""
        return self.tables[0].name, (self.native_id,)

    def is_lasting(self, table: str) -> bool:
        """Whether rows of that table stay for as long as the session does."""
        return any(known.name == table and known.under is None for known in self.tables)

    def rows(self) -> Iterator[SessionRow]:
        """All its rows; apsw.Error if the database is damaged, StoreUnreadable if its tables are others."""
        with closing(open_copy(self._kept.copy(self.database).path)) as db:
            yield from self._rows_in(db)

    def _rows_in(self, db: apsw.Connection) -> Iterator[SessionRow]:
        for table, names in self._known(db):
            told = ", ".join(f"typeof({quoted(name)}), {_exact(name)}" for name in names)
            where = table.where or f"{quoted(table.owner or '')} in mine"
            sql = f"with recursive mine(id) as ({self._mine}) select {told} from {table.name} where {where}"
            for found in db.execute(sql, (self.native_id,)):
                values = {
                    name: plain(kind, value)
                    for name, kind, value in zip(names, found[::2], found[1::2], strict=True)
                }
                yield SessionRow(table.name, key_of(table, values), values)

    def _known(self, db: apsw.Connection) -> list[tuple[SessionTable, list[str]]]:
        """The tables that this database has, with their columns; a copy without the lasting ones is none."""
        found = []
        for table in self.tables:
            names = columns(db, table.name)
            if set(table.key) <= set(names) and (table.owner is None or table.owner in names):
                found.append((table, names))
            elif table.under is None:
                raise errors.StoreUnreadable(f"{self.database} has no table {table.name} as it is known here")
        return found


def key_of(table: SessionTable, values: Values) -> Key:
    """What no other row of the table has."""
    return tuple(_hashable(values.get(name)) for name in table.key)


def columns(db: apsw.Connection, table: str) -> list[str]:
    """The columns of a table that hold something; none if there is no such table."""
    return [str(found[1]) for found in db.execute(f"pragma table_info({table})")]


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def plain(kind: str, value: Any) -> Any:
    """A value as JSON can hold it, such that `exact` gives it back."""
    if kind == "text":
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"text": base64.b64encode(value).decode()}
    if kind == "blob":
        return {"blob": base64.b64encode(value).decode()}
    if kind == "real" and value in (float("inf"), float("-inf")):
        return {"real": str(value)}
    return value


def exact(value: Any) -> tuple[str, Any]:
    """The SQL and the value to insert."""
    if not isinstance(value, dict):
        return "?", value
    ((kind, told),) = value.items()
    if kind == "real":
        return "?", float(told)
    return ("cast(? as text)" if kind == "text" else "?"), base64.b64decode(told)


def _exact(name: str) -> str:
    column = quoted(name)
    return f"case typeof({column}) when 'text' then cast({column} as blob) else {column} end"


def _hashable(value: Any) -> Any:
    return tuple(value.items()) if isinstance(value, dict) else value


# --- Our copy of one session's rows: a file of JSON lines that only grows, so that no state seen is ever lo

FOLDER = "rows"

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class RowPosition(NamedTuple):
    """Where in a database a row is, and in our copy its last state."""

    table: str
    key: Key
    at: int = 0  # where its line begins


class RowComparison(NamedTuple):
    """How a session's rows compare with our copy of them."""

    change: Change
    gone: list[RowPosition]  # what would have to be put back, in the order of the tables


class _BackedUpRow(NamedTuple):
    digest: bytes
    at: int


_All = dict[tuple[str, Key], _BackedUpRow]


class RowBackup:
    """The rows that we have of one session in one database."""

    def __init__(self, path: str, database: str):
        self.path = path
        self.database = database

    @classmethod
    def of(cls, folder: str, database: str) -> RowBackup:
        """The copy for that database among those of a session, or where it would be."""
        for found in known(folder):
            if found.database == database:
                return found
        base = os.path.basename(database)
        names = chain([f"{base}.jsonl"], (f"{number}-{base}.jsonl" for number in count(2)))
        paths = (os.path.join(folder, FOLDER, name) for name in names)
        return cls(next(path for path in paths if not os.path.exists(path)), database)

    def take(self, share: SessionRows) -> int:
        """Add what is new, and what is gone; how many bytes that were."""
        before = self._size()
        lines = self._news(share)
        if (first := next(lines, None)) is None:
            return 0
        durable_io.make_folder(os.path.dirname(self.path))
        with open(self.path, "ab") as file:
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
        """What became of the rows since they were copied; apsw.Error if that cannot be told."""
        seen = self._seen(share)
        there: set[tuple[str, Key]] = set()
        changed = False
        for row in share.rows():
            place = (row.table, row.key)
            there.add(place)
            changed = changed or place not in seen or seen[place].digest != _digest(_line(row))
        gone = {place for place in seen if place not in there}
        if not any(share.is_lasting(table) for table, _ in gone):
            return RowComparison("grown" if changed else "same", [])
        if share.own in gone:
            return RowComparison("missing", _back(share, seen, gone))
        if any(share.is_lasting(table) and (table, key) not in seen for table, key in there):
            return RowComparison("rewritten", [])
        return RowComparison("shrunk", _back(share, seen, gone))

    def rows(self, places: Iterable[RowPosition]) -> Iterator[SessionRow]:
        """Their last states."""
        with open(self.path, "rb") as file:
            for place in places:
                file.seek(place.at)
                yield SessionRow(place.table, place.key, _decode(file.readline())["row"])

    def _news(self, share: SessionRows) -> Iterator[bytes]:
        seen = self._seen(share)
        there: set[tuple[str, Key]] = set()
        try:
            for row in share.rows():
                there.add((row.table, row.key))
                line = _line(row)
                before = seen.get((row.table, row.key))
                if before is None or before.digest != _digest(line):
                    yield line
        except DAMAGE:  # what was read is kept, and nothing is known to be gone
            return
        if share.own not in there:  # deleted: its last state is what is to be kept
            return
        keys = {table.name: table.key for table in share.tables}
        for table, key in (place for place in seen if place not in there):
            yield _encode({"table": table, "gone": dict(zip(keys[table], key, strict=True))})

    def _seen(self, share: SessionRows) -> _All:
        """The rows that were there when we last looked."""
        tables = {table.name: table for table in share.tables}
        seen: _All = {}
        for at, line in _lines(self.path):
            told = _told(line)
            table = tables.get(told.get("table", ""))
            if table is None:
                continue
            if isinstance(values := told.get("row"), dict):
                seen[(table.name, key_of(table, values))] = _BackedUpRow(_digest(line), at)
            elif isinstance(values := told.get("gone"), dict):
                seen.pop((table.name, key_of(table, values)), None)
        return seen

    def _size(self) -> int:
        return os.path.getsize(self.path) if os.path.exists(self.path) else 0


def known(folder: str) -> list[RowBackup]:
    """The copies of rows among those of a session."""
    found = []
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(os.path.join(folder, FOLDER))):
            path = os.path.join(folder, FOLDER, name)
            _, first = next(_lines(path), (0, b""))
            if isinstance(database := _told(first).get("database"), str):
                found.append(RowBackup(path, database))
    return found


def _back(share: SessionRows, seen: _All, gone: Collection[tuple[str, Key]]) -> list[RowPosition]:
    """What is to be put back: rows that may go by themselves only where the one above them went too."""
    back: dict[str, list[RowPosition]] = {}
    for table in share.tables:
        if table.under is None or back.get(table.under):
            found = (place for place in gone if place[0] == table.name)
            back[table.name] = [RowPosition(*place, seen[place].at) for place in found]
    return [place for table in share.tables for place in back.get(table.name, ())]


def _line(row: SessionRow) -> bytes:
    return _encode({"table": row.table, "row": row.values})


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


def _told(line: bytes) -> dict[str, Any]:
    try:
        return _decode(line)
    except msgspec.DecodeError:
        return {}


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Where each whole line begins, and the line."""
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


# --- Rows that are gone are put back into another tool's database: all of them, or none.

PATIENCE_MS = 2000


def put_back(share: SessionRows, rows: Iterable[SessionRow]) -> None:
    """Insert them; a row that is there, and all of other sessions, stays as it is."""
    _refuse(share)
    try:
        with closing(apsw.Connection(share.database, flags=apsw.SQLITE_OPEN_READWRITE)) as db:
            db.set_busy_timeout(PATIENCE_MS)
            db.execute("pragma foreign_keys = on")
            with db:
                db.execute("pragma defer_foreign_keys = on")
                _insert(db, share, rows)
    except apsw.BusyError:
        raise errors.StoreBusy(f"{share.database} is locked by its own tool", hint="end it first") from None
    except apsw.Error as problem:
        said = " ".join(str(problem).split())
        raise errors.Refused(
            f"{share.database} does not take these rows, and nothing was changed: {said}",
            hint="our copy is whole; `holdfast log` has what the session said",
        ) from None


def _refuse(share: SessionRows) -> None:
    if not os.path.isfile(share.database):
        raise errors.Refused(
            f"{share.database} is gone, and its tool must make it", hint="start the tool once, then try again"
        )
    if pids := open_files.holders(share.database):
        raise errors.SessionRunning(
            f"{share.database} is in use (process {pids[0]})", hint="end its tool first, then try again"
        )
    with snapshot(share.database) as copy, closing(open_copy(copy)) as db:
        # A search index may be called malformed where the tool itself stored a NUL; it holds no session.
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
        # A later version of the tool may have left a column out.
        values = {name: value for name, value in row.values.items() if name in names[row.table]}
        parts = [exact(value) for value in values.values()]
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
