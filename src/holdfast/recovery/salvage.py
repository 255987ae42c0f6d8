"""What a damaged database still gives that no whole mirror has, merged with what damaged mirrors give."""

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
from holdfast.recovery.merge import MergedLog, content, counted, lost_in_words, merge, ranges, with_beginning
from holdfast.recovery.restore import adopt
from holdfast.store.sql import Sql
from holdfast.store.sqlite.damaged import LostHeader, SalvagedRows, Wanted, read_remains
from holdfast.store.store import Store

JOINT = 2  # records that both copies have, by which it is seen whether they tell the same story

SAMPLE = 20  # records by which a session is known whose id is damaged

log = logging.getLogger(__name__)


async def salvage(store: Store, home: Home, path: str) -> list[Done]:
    """Adopt what a quarantined database has beyond the whole mirrors; what was recovered and what is lost."""
    if os.path.getsize(path) == 0:
        return []
    have = {row[1]: row[3] for row in await store.query(lambda sql: sql.rows("heads"))}

    def wanted(found: SalvagedRows) -> Wanted:
        ends = {n: have.get(session, 0) for n, session in found.ids.items()}
        return lambda n, seq: seq > ends.get(n, 0) - JOINT

    remains = read_remains(path, wanted)
    if remains.problem:
        log.warning("the damaged database can be read in part only: %s", remains.problem)
    names = await _names(store, home, remains, have)
    done: list[Done] = []
    waiting: list[tuple[int, str]] = []  # for another session to give up their key

    async def one(n: int, session: str, give_way: bool) -> None:
        try:
            merged = await _merged(store, home, remains, n, session, have.get(session, 0))
            added = await adopt(store, session, merged.records, give_way=give_way) if merged.records else 0
        except errors.KeyTaken:
            waiting.append((n, session))
        except errors.HoldfastError as problem:
            log.warning("what the damaged database has of %s cannot be used: %s", session, problem)
        else:
            lost = [seq for seq in merged.lost if seq > have.get(session, 0)]
            if added:
                done.append(_done(session, added - len(lost), lost, path))

    for n, session in sorted(names.items()):
        await one(n, session, give_way=False)
    for n, session in waiting.copy():
        await one(n, session, give_way=True)
    return done


def _done(session: str, recovered: int, lost: list[int], path: str) -> Done:
    return Done(
        finding=f"salvaged:{session}",
        code="salvaged",
        subject=session,
        result=f"recovered with the damaged database: {counted(recovered)}{lost_in_words(lost)}",
        kept=[path] if lost else [],
        recovered=recovered,
        lost=ranges(lost),
    )


async def _merged(
    store: Store, home: Home, remains: SalvagedRows, n: int, session: str, have: int
) -> MergedLog:
    logged = {seq: r for seq, r in remains.logs.get(n, {}).items() if is_record(session, r)}
    raw = {seq: data for seq, data in remains.unreadable.get(n, {}).items() if seq not in logged}
    head = remains.heads.get(n, 0)
    if have >= max([head, *logged, *raw], default=0):
        return MergedLog([], [])
    mirror = content(_pieces(home, session))
    if have:
        ours = await store.query(lambda sql: _last_records(sql, session, have))
        mirror = mirror._replace(proven={**mirror.proven, **ours})
    merged = merge(mirror, logged, raw, head)
    header = remains.headers.get(n)
    at = header.created_at if header and header.created_at else ""
    at = at if timestamps.is_stamp(at) else timestamps.now()
    records = [record if record.at else record._replace(at=at) for record in merged.records]
    return merged._replace(records=with_beginning(records, _creation(header)))


def _creation(header: LostHeader | None) -> Create | None:
    if header is None or header.agent is None:
        return None
    key = header.key if header.state == "live" else None  # else another session may have it by now
    return Create(agent=header.agent, key=key, cwd=header.cwd, host=header.host, title=header.title)


async def _last_records(sql: Sql, session: str, head: int) -> dict[int, Record]:
    n = (await sql.dicts("session", id=session))[0]["n"]
    rows = await sql.rows("log", n=n, after=max(0, head - JOINT), limit=JOINT)
    return {row[0]: _as_record(row) for row in rows}


def _as_record(row: tuple[object, ...]) -> Record:
    record = Record(*row)  # type: ignore[arg-type]
    return record._replace(replayed=bool(record.replayed), last=bool(record.last))


def _pieces(home: Home, session: str) -> list[mirror_reader.Piece]:
    for path in (home.mirror(session), home.trashed(session)):
        if os.path.isfile(path) and not os.path.islink(path):
            with suppress(OSError):
                return list(mirror_reader.read(session, path))
    return []


async def _names(store: Store, home: Home, remains: SalvagedRows, have: Mapping[str, int]) -> dict[int, str]:
    """Sessions by number. One whose id or number is damaged is known by a record that another copy has."""
    mirrored = {*have, *_mirrored(home)}
    strangers = sorted(mirrored - set(remains.ids.values()))  # of which the database has no readable id
    names = {n: session for n, session in remains.ids.items() if session in mirrored}
    for n in sorted({*remains.ids, *remains.logs} - set(names)):
        some = remains.logs.get(n, {})
        session = await _same(store, home, some, strangers, have)
        number = next((k for k, name in names.items() if name == session), None)
        if number is not None:  # rows whose number is damaged
            for seq, record in some.items():
                remains.logs.setdefault(number, {}).setdefault(seq, record)
        elif session is not None:
            names[n] = session
        elif n in remains.ids:
            names[n] = remains.ids[n]
        elif some:
            first = some[min(some)]
            names[n] = ids.derived(ids.SESSION, "salvaged", first.at, first.body)
    return names


def _mirrored(home: Home) -> set[str]:
    found = set()
    for folder in (home.sessions, home.trash):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            session = name.removesuffix(".jsonl")
            if session != name and ids.is_id(session, ids.SESSION):
                found.add(session)
    return found


async def _same(
    store: Store, home: Home, some: Mapping[int, Record], strangers: list[str], have: Mapping[str, int]
) -> str | None:
    """Which of the sessions has one of these records."""
    asked = sorted(some)[:SAMPLE]
    for seq in asked:
        at = some[seq].at
        found = await store.query(lambda sql, q=seq, t=at: sql.rows("sessions_with_record", seq=q, at=t))  # type: ignore[misc]
        if found:
            return str(found[0][0])
    for session in strangers:
        theirs = content(_pieces(home, session)).proven
        if any(some[seq] == theirs.get(seq) for seq in asked):
            return session
    return None
