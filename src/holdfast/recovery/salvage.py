"""Which records does a damaged database have beyond the whole mirrors? Merged with damaged mirrors."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress

from holdfast import errors, ids, timestamps
from holdfast.home import Home
from holdfast.model.changes import Create
from holdfast.model.event import Record
from holdfast.recovery import mirror_reader
from holdfast.recovery.damaged_records import is_record
from holdfast.recovery.findings import Done
from holdfast.recovery.merge import (
    MergedLog,
    count_text,
    lost_text,
    merge,
    mirror_content,
    ranges,
    with_creation,
)
from holdfast.recovery.restore import add_records
from holdfast.store.sql import Sql
from holdfast.store.sqlite.damaged import LostHeader, SalvagedRows, Wanted, read_damaged
from holdfast.store.store import Store

OVERLAP = 2  # records that both copies have, to check that they share a history
SAMPLE = 20  # records that identify a session whose id is damaged

log = logging.getLogger(__name__)


async def salvage(store: Store, home: Home, path: str) -> list[Done]:
    """Restore the records that a database in quarantine has beyond the whole mirrors."""
    if os.path.getsize(path) == 0:
        return []
    have = {row[1]: row[3] for row in await store.query(lambda sql: sql.rows("heads"))}

    def wanted(rows: SalvagedRows) -> Wanted:
        ends = {n: have.get(session, 0) for n, session in rows.ids.items()}
        return lambda n, seq: seq > ends.get(n, 0) - OVERLAP

    rows = read_damaged(path, wanted)
    if rows.problem:
        log.warning("only a part of the damaged database is readable: %s", rows.problem)
    names = await _session_ids(store, home, rows, have)
    done: list[Done] = []
    waiting: list[tuple[int, str]] = []  # until another session releases their key

    async def one(n: int, session: str, archive_on_conflict: bool) -> None:
        try:
            merged = await _merged(store, home, rows, n, session, have.get(session, 0))
            added = 0
            if merged.records:
                added = await add_records(
                    store, session, merged.records, archive_on_conflict=archive_on_conflict
                )
        except errors.KeyTaken:
            waiting.append((n, session))
        except errors.HoldfastError as problem:
            log.warning("the rows of %s in the damaged database are unusable: %s", session, problem)
        else:
            lost = [seq for seq in merged.lost if seq > have.get(session, 0)]
            if added:
                done.append(_done(session, added - len(lost), lost, path))

    for n, session in sorted(names.items()):
        await one(n, session, archive_on_conflict=False)
    for n, session in waiting.copy():
        await one(n, session, archive_on_conflict=True)
    return done


def _done(session: str, recovered: int, lost: list[int], path: str) -> Done:
    return Done(
        finding=f"salvaged:{session}",
        code="salvaged",
        subject=session,
        result=f"restored {count_text(recovered)} from the damaged database{lost_text(lost)}",
        kept=[path] if lost else [],
        recovered=recovered,
        lost=ranges(lost),
    )


async def _merged(store: Store, home: Home, rows: SalvagedRows, n: int, session: str, have: int) -> MergedLog:
    logged = {seq: r for seq, r in rows.logs.get(n, {}).items() if is_record(session, r)}
    raw = {seq: data for seq, data in rows.unreadable.get(n, {}).items() if seq not in logged}
    head = rows.heads.get(n, 0)
    if have >= max([head, *logged, *raw], default=0):
        return MergedLog([], [])
    mirror = mirror_content(_segments(home, session))
    if have:
        ours = await store.query(lambda sql: _last_records(sql, session, have))
        mirror = mirror._replace(proven={**mirror.proven, **ours})
    merged = merge(mirror, logged, raw, head)
    header = rows.headers.get(n)
    at = header.created_at if header and header.created_at else ""
    at = at if timestamps.is_stamp(at) else timestamps.now()
    records = [record if record.at else record._replace(at=at) for record in merged.records]
    return merged._replace(records=with_creation(records, _creation(header)))


def _creation(header: LostHeader | None) -> Create | None:
    if header is None or header.agent is None:
        return None
    key = header.key if header.state == "live" else None  # otherwise another session may have it
    return Create(agent=header.agent, key=key, cwd=header.cwd, host=header.host, title=header.title)


async def _last_records(sql: Sql, session: str, head: int) -> dict[int, Record]:
    n = (await sql.dicts("session", id=session))[0]["n"]
    rows = await sql.rows("log", n=n, after=max(0, head - OVERLAP), limit=OVERLAP)
    return {row[0]: _as_record(row) for row in rows}


def _as_record(row: tuple[object, ...]) -> Record:
    record = Record(*row)  # type: ignore[arg-type]
    return record._replace(replayed=bool(record.replayed), last=bool(record.last))


def _segments(home: Home, session: str) -> list[mirror_reader.MirrorSegment]:
    for path in (home.mirror(session), home.trashed(session)):
        if os.path.isfile(path) and not os.path.islink(path):
            with suppress(OSError):
                return list(mirror_reader.read(session, path))
    return []


async def _session_ids(
    store: Store, home: Home, rows: SalvagedRows, have: Mapping[str, int]
) -> dict[int, str]:
    """Session ids by number. A record in another copy identifies a session whose id or number is damaged."""
    mirrored = {*have, *_mirrored(home)}
    unmatched = sorted(mirrored - set(rows.ids.values()))  # the database has no readable id of these
    names = {n: session for n, session in rows.ids.items() if session in mirrored}
    for n in sorted({*rows.ids, *rows.logs} - set(names)):
        some = rows.logs.get(n, {})
        session = await _find_owner(store, home, some, unmatched)
        if session is None and (header := rows.headers.get(n)) and header.created_at:
            # No record of it is readable. Two sessions do not share a time of creation.
            session = await _created_at(store, header.created_at, unmatched)
        number = next((k for k, name in names.items() if name == session), None)
        if number is not None:  # rows with a damaged number
            for seq, record in some.items():
                rows.logs.setdefault(number, {}).setdefault(seq, record)
        elif session is not None:
            names[n] = session
        elif n in rows.ids:
            names[n] = rows.ids[n]
        elif some:
            first = some[min(some)]
            names[n] = ids.derived(ids.SESSION, "salvaged", first.at, first.body)
    return names


def _mirrored(home: Home) -> set[str]:
    sessions = set()
    for folder in (home.sessions, home.trash):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            session = name.removesuffix(".jsonl")
            if session != name and ids.is_id(session, ids.SESSION):
                sessions.add(session)
    return sessions


async def _created_at(store: Store, at: str, sessions: list[str]) -> str | None:
    rows = await store.query(lambda sql: sql.rows("sessions_with_record", seq=1, at=at))
    return next((session for (session,) in rows if session in sessions), None)


async def _find_owner(
    store: Store, home: Home, some: Mapping[int, Record], unmatched: list[str]
) -> str | None:
    """The session that has one of these records."""
    sample = sorted(some)[:SAMPLE]
    for seq in sample:
        at = some[seq].at
        owners = await store.query(lambda sql, q=seq, t=at: sql.rows("sessions_with_record", seq=q, at=t))  # type: ignore[misc]
        if owners:
            return str(owners[0][0])
    for session in unmatched:
        theirs = mirror_content(_segments(home, session)).proven
        if any(some[seq] == theirs.get(seq) for seq in sample):
            return session
    return None
