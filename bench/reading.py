"""Reading a long log, and listing among many sessions."""

from __future__ import annotations

import os
import tempfile

import apsw
import msgspec

from bench.append import Running, events
from bench.measure import Measured, compare, per_unit
from holdfast.model.commit import Commit


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    scale = 10 if quick else 1
    with tempfile.TemporaryDirectory() as folder:
        ours = await Running.start(folder)
        path = os.path.join(folder, "home", "state.db")
        results = await _read(ours, path, 20_000 // scale)
        results += await _list(ours, path, 10_000 // scale)
        await ours.store.close()
    return results


async def _read(ours: Running, path: str, length: int) -> list[Measured]:
    await ours.fill(0, length)
    session = ours.sessions[0][0]
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)

    async def all_events() -> None:
        after = 0
        while page := await ours.store.events(session, after):
            after = page[-1].seq

    async def all_lines() -> None:
        after = 0
        while page := await ours.store.event_lines(session, after):
            after += len(page)

    async def raw() -> None:
        for row in db.execute("select seq, body, origin from log where n = 1 order by seq"):
            msgspec.json.decode(row[1])
            if row[2] is not None:
                msgspec.json.decode(row[2])

    return [
        await compare(
            f"read {length:,} events",
            lambda: per_unit(length, all_events),
            "raw apsw and a JSON decode",
            lambda: per_unit(length, raw),
        ),
        await compare(
            f"read {length:,} lines for the wire",
            lambda: per_unit(length, all_lines),
            "raw apsw and a JSON decode",
            lambda: per_unit(length, raw),
        ),
    ]


async def _list(ours: Running, path: str, sessions: int) -> list[Measured]:
    for i in range(sessions):
        session = await ours.store.create_session("claude", key=f"key:{i}", title=f"title {i}")
        await ours.store.commit(Commit(session.id, events(1)))
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)

    async def first_page() -> None:
        for _ in range(20):
            assert len((await ours.store.sessions(limit=50)).sessions) == 50

    async def found() -> None:
        assert (await ours.store.sessions(text="title 77")).sessions

    async def raw() -> None:
        for _ in range(20):
            db.execute("select * from session order by updated_at desc, n desc limit 50").fetchall()

    return [
        await compare(
            f"list 50 of {sessions:,} sessions",
            lambda: per_unit(20, first_page),
            "raw select of 50 rows",
            lambda: per_unit(20, raw),
            speed=False,
        ),
        await compare(
            f"search {sessions:,} sessions",
            lambda: per_unit(1, found),
            "raw select of 50 rows",
            lambda: per_unit(20, raw),
            speed=False,
        ),
    ]
