"""Our copy of one session's rows: a file of JSON lines that only grows, so that no state seen is ever lost.

The first line names the database. A line is a row as it was seen, or says that a row was gone; the last
line of a row counts. A torn last line, which a crash may leave, counts for nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain, count
from typing import Any, NamedTuple

import msgspec

from holdfast import fsio
from holdfast.history.copies import Change
from holdfast.history.share import DAMAGE, Key, Row, Share, key_of

FOLDER = "rows"

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class Place(NamedTuple):
    """Where in a database a row is, and in our copy its last state."""

    table: str
    key: Key
    at: int = 0  # where its line begins


class Comparison(NamedTuple):
    """How a session's rows compare with our copy of them."""

    change: Change
    gone: list[Place]  # what would have to be put back, in the order of the tables


class _Seen(NamedTuple):
    digest: bytes
    at: int


_All = dict[tuple[str, Key], _Seen]


class RowCopy:
    """The rows that we have of one session in one database."""

    def __init__(self, path: str, database: str):
        self.path = path
        self.database = database

    @classmethod
    def of(cls, folder: str, database: str) -> RowCopy:
        """The copy for that database among those of a session, or where it would be."""
        for found in known(folder):
            if found.database == database:
                return found
        base = os.path.basename(database)
        names = chain([f"{base}.jsonl"], (f"{number}-{base}.jsonl" for number in count(2)))
        paths = (os.path.join(folder, FOLDER, name) for name in names)
        return cls(next(path for path in paths if not os.path.exists(path)), database)

    def take(self, share: Share) -> int:
        """Add what is new, and what is gone; how many bytes that were."""
        before = self._size()
        lines = self._news(share)
        if (first := next(lines, None)) is None:
            return 0
        fsio.make_folder(os.path.dirname(self.path))
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

    def compare(self, share: Share) -> Comparison:
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
            return Comparison("grown" if changed else "same", [])
        if share.own in gone:
            return Comparison("missing", _back(share, seen, gone))
        if any(share.is_lasting(table) and (table, key) not in seen for table, key in there):
            return Comparison("rewritten", [])
        return Comparison("shrunk", _back(share, seen, gone))

    def rows(self, places: Iterable[Place]) -> Iterator[Row]:
        """Their last states."""
        with open(self.path, "rb") as file:
            for place in places:
                file.seek(place.at)
                yield Row(place.table, place.key, _decode(file.readline())["row"])

    def _news(self, share: Share) -> Iterator[bytes]:
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

    def _seen(self, share: Share) -> _All:
        """The rows that were there when we last looked."""
        tables = {table.name: table for table in share.tables}
        seen: _All = {}
        for at, line in _lines(self.path):
            told = _told(line)
            table = tables.get(told.get("table", ""))
            if table is None:
                continue
            if isinstance(values := told.get("row"), dict):
                seen[(table.name, key_of(table, values))] = _Seen(_digest(line), at)
            elif isinstance(values := told.get("gone"), dict):
                seen.pop((table.name, key_of(table, values)), None)
        return seen

    def _size(self) -> int:
        return os.path.getsize(self.path) if os.path.exists(self.path) else 0


def known(folder: str) -> list[RowCopy]:
    """The copies of rows among those of a session."""
    found = []
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(os.path.join(folder, FOLDER))):
            path = os.path.join(folder, FOLDER, name)
            _, first = next(_lines(path), (0, b""))
            if isinstance(database := _told(first).get("database"), str):
                found.append(RowCopy(path, database))
    return found


def _back(share: Share, seen: _All, gone: Collection[tuple[str, Key]]) -> list[Place]:
    """What is to be put back: rows that may go by themselves only where the one above them went too."""
    back: dict[str, list[Place]] = {}
    for table in share.tables:
        if table.under is None or back.get(table.under):
            found = (place for place in gone if place[0] == table.name)
            back[table.name] = [Place(*place, seen[place].at) for place in found]
    return [place for table in share.tables for place in back.get(table.name, ())]


def _line(row: Row) -> bytes:
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
