"""What a damaged database still gives that no mirror has."""

from __future__ import annotations

import logging
import os
from contextlib import suppress

import apsw

from holdfast import errors, ids
from holdfast.home import Home
from holdfast.model.record import Record
from holdfast.recover import reading
from holdfast.recover.adopt import adopt
from holdfast.recover.finding import Done
from holdfast.store.base import BaseStore
from holdfast.store.mirror import line
from holdfast.store.sqlite.connection import open_reader
from holdfast.store.sqlite.sql import SqliteSql

PAGE = 100

log = logging.getLogger(__name__)


async def salvage(store: BaseStore, home: Home, path: str) -> list[Done]:
    """Adopt the records of a quarantined database that follow what whole mirrors had."""
    if os.path.getsize(path) == 0:
        return []
    try:
        old = open_reader(path)
    except (errors.HoldfastError, apsw.Error, UnicodeDecodeError) as problem:
        log.warning("nothing can be read of the damaged database: %s", problem)
        return []
    done = []
    try:
        for n, session, _state, _seq, *_ in await SqliteSql(old).rows("heads"):
            if not (isinstance(session, str) and ids.is_id(session, ids.SESSION)):
                continue
            added = await _one(store, home, SqliteSql(old), n, session)
            if added:
                done.append(
                    Done(
                        finding=f"salvaged:{session}",
                        code="salvaged",
                        subject=session,
                        result=f"{added} records were only in the damaged database",
                    )
                )
    except (apsw.Error, UnicodeDecodeError) as problem:
        log.warning("the damaged database could be read in part only: %s", problem)
    finally:
        old.close()
    return done


async def _one(store: BaseStore, home: Home, old: SqliteSql, n: int, session: str) -> int:
    proven: dict[int, Record] = {}
    try:
        have = (await store.session(session)).events
    except errors.NotFound:
        have, proven = 0, _proven(home, session)
    # With the last record that is there, so that it is seen whether both tell the same story.
    records = await _readable(old, n, session, max(0, have - 1))
    records = [proven.get(record.seq, record) for record in records]
    while records and (found := proven.get(records[-1].seq + 1)) is not None:
        records.append(found)
    while records and not records[-1].last:
        records.pop()
    try:
        return await adopt(store, session, records, give_way=False) if records else 0
    except errors.HoldfastError as problem:
        log.warning("what the damaged database has of %s cannot be used: %s", session, problem)
        return 0


def _proven(home: Home, session: str) -> dict[int, Record]:
    """What a damaged mirror has that its checksums vouch for; of a damaged database nothing does."""
    for path in (home.mirror(session), home.trashed(session)):
        if os.path.isfile(path) and not os.path.islink(path):
            with suppress(OSError):
                pieces = reading.read(session, path)
                return {record.seq: record for piece in pieces for record in piece.proven}
    return {}


async def _readable(old: SqliteSql, n: int, session: str, after: int) -> list[Record]:
    """The records after a seq, up to the first that cannot be read."""
    records: list[Record] = []
    page = PAGE
    while True:
        try:
            rows = await old.rows("log", n=n, after=after + len(records), limit=page)
        except (apsw.Error, UnicodeDecodeError) as problem:
            if page > 1:
                page = 1  # one of these is damaged; take what is before it
                continue
            log.warning("the log of %s could be read in part only: %s", session, problem)
            return records
        if not rows:
            return records
        for row in rows:
            record = Record(*row)
            if record.seq != after + len(records) + 1 or not _is_record(session, record):
                return records
            records.append(record)


def _is_record(session: str, record: Record) -> bool:
    """Whether it could have been written: SQLite gives back whatever a damaged page holds."""
    try:
        data, _ = line.write(session, record)
        return line.read(session, data[:-1]).record == record and reading.is_sound(record)
    except (line.BadLine, TypeError, ValueError):
        return False
