"""How are rows of another tool's SQLite read? From a private copy, with any bytes in any column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from holdfast.agents.cursor.checkpoints import Blobs
from holdfast.transcripts import jsonl
from holdfast.transcripts.sqlite_snapshot import open_copy, snapshot


@contextmanager
def open_database(path: str) -> Iterator[apsw.Connection]:
    """A connection to a copy; raises OSError or apsw.Error if it is not a database."""
    with snapshot(path) as copy:
        db = open_copy(copy)
        try:
            yield db
        finally:
            db.close()


def tables(db: apsw.Connection) -> set[str]:
    """The tables of a database."""
    names = db.execute("select cast(name as blob) from sqlite_master where type = 'table'")
    return {_text(name) for (name,) in names}


def rows(
    db: apsw.Connection, table: str, names: tuple[str, ...], then: str = "", values: tuple[Any, ...] = ()
) -> Iterator[dict[str, Any]]:
    """The rows of a table as text, numbers or None; a column that this version lacks is None."""
    there = {
        _text(name) for (name,) in db.execute(f"select cast(name as blob) from pragma_table_info('{table}')")
    }
    # Text that is not UTF-8 is returned as bytes.
    asked = [_column(name) if name in there else "null" for name in names]
    for row in db.execute(f"select {', '.join(asked)} from {table} {then}", values):
        yield {
            name: _text(value) if isinstance(value, bytes) else value
            for name, value in zip(names, row, strict=True)
        }


def _column(name: str) -> str:
    return f"case typeof({name}) when 'text' then cast({name} as blob) else {name} end"


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


# --- Content-addressed blobs and their `meta` table: the CLI's store of one conversation

TABLES = frozenset({"blobs", "meta"})


def blobs_in(db: apsw.Connection) -> Blobs:
    """The blobs of a database; an unreadable blob is None."""

    def get(blob: str) -> bytes | None:
        try:
            row = db.execute("select cast(data as blob) from blobs where id = ?", (blob,)).fetchone()
        except apsw.Error:
            return None
        return row[0] if row is not None and isinstance(row[0], bytes) else None

    return get


def meta(db: apsw.Connection) -> dict[str, Any] | None:
    """The store's metadata: JSON, plain or in hex; None if it is unreadable."""
    rows = [
        row[0]
        for row in db.execute(
            "select cast(value as blob) from meta order by cast(key as text) <> '0', rowid limit 20"
        )
    ]
    for value in rows:
        parsed = jsonl.parse(_plain(value)) if isinstance(value, bytes) else None
        if isinstance(parsed, dict) and ("latestRootBlobId" in parsed or "agentId" in parsed):
            return parsed
    return None


def _plain(value: bytes) -> bytes:
    if value.lstrip().startswith(b"{"):
        return value
    try:
        return bytes.fromhex(value.decode("ascii"))
    except ValueError:
        return value
