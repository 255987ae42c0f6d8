"""Which rows of a damaged SQLite file are readable?

First by SQLite itself: `writable_schema` opens files that are otherwise malformed (too short), and reading
by rowid needs no index; around a damaged page it reads from both ends. Then directly from the leaf pages,
which needs nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import apsw
import msgspec

from holdfast import errors, ids
from holdfast.model.event import Record
from holdfast.store.sqlite.connection import open_reader
from holdfast.store.sqlite.pages import LeafRow, PageFile, Value
from holdfast.store.sqlite.sql import AS_BYTES

LOG = ("n", "seq", "kind", "at", "task", "replayed", "origin", "spool", "last", "body")
LOG_ROW = 1 + len(LOG)  # with the rowid column, which is null
SESSION = ("id", "seq", "agent", "key", "cwd", "host", "title", "created_at", "state")
SESSION_COLUMNS = (1, 17, 3, 2, 4, 5, 6, 15, 7)  # their positions in a row
SESSION_ROW = 22
STEP = 500  # rows per read

log = logging.getLogger(__name__)

Wanted = Callable[[int, int], bool]  # whether the record of that session and seq is needed


class LostHeader(NamedTuple):
    """What a session row says about its creation, if that record is lost."""

    agent: str | None
    key: str | None
    cwd: str | None
    host: str | None
    title: str | None
    created_at: str | None
    state: str | None


class SalvagedRows(msgspec.Struct):
    """The readable rows of a damaged file, by the number of the session."""

    ids: dict[int, str] = msgspec.field(default_factory=dict)
    heads: dict[int, int] = msgspec.field(default_factory=dict)  # how many records each session had
    headers: dict[int, LostHeader] = msgspec.field(default_factory=dict)
    logs: dict[int, dict[int, Record]] = msgspec.field(default_factory=dict)
    unreadable: dict[int, dict[int, bytes]] = msgspec.field(default_factory=dict)  # bodies that are not text
    whole: bool = True  # SQLite could read every row
    problem: str | None = None


def read_damaged(path: str, wanted: Callable[[SalvagedRows], Wanted]) -> SalvagedRows:
    """Read the file. `wanted` chooses the records once the sessions are known."""
    salvaged = SalvagedRows()
    pages: PageFile | None = None
    try:
        db = _open(path)
        try:
            for n, *values in _by_rowid(db, "session", "n", SESSION, salvaged):
                _take_session(salvaged, n, values)
            rows = _by_rowid(db, "log", "id", LOG, salvaged)
            _take_records(salvaged, wanted(salvaged), (row[1:] for row in rows))
        finally:
            db.close()
    except (apsw.Error, errors.HoldfastError, UnicodeDecodeError) as problem:
        salvaged.whole, salvaged.problem = False, str(problem)
    if salvaged.whole:
        return salvaged
    try:
        pages = PageFile(path)
        for row in pages.rows():
            _take_session_leaf(salvaged, row)
        choose = wanted(salvaged)
        _take_records(salvaged, choose, (row.values[1:LOG_ROW] for row in pages.rows() if _is_log(row)))
    except OSError as problem:
        log.warning("the pages of %s are unreadable: %s", path, problem)
    finally:
        if pages is not None:
            pages.close()
    return salvaged


def _open(path: str) -> apsw.Connection:
    try:
        db = open_reader(path)
    except (errors.HoldfastError, apsw.Error):
        db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    db.execute("pragma writable_schema = on")
    return db


def _by_rowid(
    db: apsw.Connection, table: str, key: str, columns: Sequence[str], salvaged: SalvagedRows
) -> Iterator[list[Value]]:
    """Rows as [rowid, columns...], each once: from the first up, from the last down, then in between."""
    values = ", ".join(AS_BYTES.format(name) for name in columns)
    text = f"select {key}, {values} from {table} not indexed where {key} between ? and ? order by {key}"

    def part(low: int, high: int, down: bool = False) -> Iterator[list[Value]]:
        for row in db.execute(text + (" desc" if down else ""), (low, high)):
            yield list(row)

    low, high = -(1 << 63), (1 << 63) - 1
    try:
        for row in part(low, high):
            yield row
            low = _number(row[0]) + 1
        return
    except apsw.Error as problem:
        salvaged.whole, salvaged.problem = False, salvaged.problem or str(problem)
    try:
        for row in part(low, high, down=True):
            yield row
            high = _number(row[0]) - 1
    except apsw.Error:
        yield from _between(part, low, high)


def _between(part: Callable[[int, int], Iterator[list[Value]]], low: int, high: int) -> Iterator[list[Value]]:
    """Rows between damaged pages: each half of a failing range is read alone."""
    waiting = [(low, high)] if low > -(1 << 62) and high < 1 << 62 else []
    while waiting:
        low, high = waiting.pop()
        last = low - 1
        try:
            for row in part(low, high):
                yield row
                last = _number(row[0])
        except apsw.Error:
            low = last + 1
            if low < high:
                middle = (low + high) // 2
                waiting += [(middle + 1, high), (low, middle)]


def _number(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _take_session(salvaged: SalvagedRows, n: Value, values: Sequence[Value]) -> None:
    texts = [_text(value) for value in values]
    name, seq = texts[0] or "", values[1] if len(values) > 1 else None
    if not isinstance(n, int) or not ids.is_id(name, ids.SESSION) or name in salvaged.ids.values():
        return
    salvaged.ids.setdefault(n, name)
    if isinstance(seq, int) and 0 < seq < 1 << 40:
        salvaged.heads[n] = seq
        salvaged.headers[n] = LostHeader(*texts[2:])


def _text(value: Value) -> str | None:
    try:
        return value.decode() if isinstance(value, bytes) else None
    except UnicodeDecodeError:
        return None


def _take_session_leaf(salvaged: SalvagedRows, row: LeafRow) -> None:
    """From a leaf page of the table, or of the index on its ids."""
    values = row.values
    if row.rowid is not None and len(values) >= SESSION_ROW and values[0] is None:
        _take_session(salvaged, row.rowid, [values[column] for column in SESSION_COLUMNS])
    elif row.rowid is None and len(values) == 2:
        _take_session(salvaged, values[1], values[:1])


def _is_log(row: LeafRow) -> bool:
    return row.rowid is not None and len(row.values) >= LOG_ROW and row.values[0] is None


def _take_records(salvaged: SalvagedRows, wanted: Wanted, rows: Iterator[list[Value]]) -> None:
    for row in rows:
        n, seq = row[0], row[1]
        if not (isinstance(n, int) and isinstance(seq, int)) or not wanted(n, seq):
            continue
        if seq in salvaged.logs.get(n, ()):
            continue  # the first read came from SQLite and is more likely to be the committed version
        record = _record(row[1:])
        if record is not None:
            salvaged.logs.setdefault(n, {})[seq] = record
        elif isinstance(row[-1], bytes):
            salvaged.unreadable.setdefault(n, {}).setdefault(seq, row[-1])


def _record(values: Sequence[Value]) -> Record | None:
    try:
        seq, kind, at, task, replayed, origin, spool, last, body = [
            value.decode() if isinstance(value, bytes) else value for value in values
        ]
        return msgspec.convert(
            (seq, kind, at, task, bool(replayed), origin, spool, bool(last), body), Record, strict=True
        )
    except (ValueError, msgspec.ValidationError):
        return None
