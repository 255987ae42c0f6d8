"""Rows that are gone are put back into another tool's database: all of them, or none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing

import apsw

from holdfast import errors
from holdfast.history import living
from holdfast.history.share import Row, Share, columns, exact, quoted
from holdfast.history.snapshot import open_copy, quick_check, snapshot

PATIENCE_MS = 2000


def put_back(share: Share, rows: Iterable[Row]) -> None:
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


def _refuse(share: Share) -> None:
    if not os.path.isfile(share.database):
        raise errors.Refused(
            f"{share.database} is gone, and its tool must make it", hint="start the tool once, then try again"
        )
    if pids := living.holders(share.database):
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


def _insert(db: apsw.Connection, share: Share, rows: Iterable[Row]) -> None:
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
