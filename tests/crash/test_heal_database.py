"""A database that is gone or damaged: put into quarantine, rebuilt from the mirrors, all as before."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable

import apsw
import pytest

from holdfast import errors
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery import database
from holdfast.recovery.heal import open_healed
from holdfast.store.location import Location
from tests.crash.heal_support import (
    RULES,
    codes,
    drop_database,
    healed_once,
    made,
    mirrors,
    opened,
    photo,
    quarantined,
    read,
    say,
    write,
)
from tests.crash.support import scratch


def _overwrite(home: Home, data: Callable[[bytes], bytes]) -> None:
    write(home.database, data(read(home.database)))


def _foreign_pages(data: bytes) -> bytes:
    return data[:100] + os.urandom(len(data) - 100)


DAMAGES: dict[str, tuple[str, Callable[[Home], None]]] = {
    "gone": ("database_missing", drop_database),
    "gone, but not its -wal": ("database_missing", lambda home: os.unlink(home.database)),
    "zero bytes": ("database_empty", lambda home: _overwrite(home, lambda data: b"")),
    "text": ("database_damaged", lambda home: _overwrite(home, lambda data: b"not a database\n" * 999)),
    "one byte": ("database_damaged", lambda home: _overwrite(home, lambda data: b"S")),
    "zeroes": ("database_damaged", lambda home: _overwrite(home, lambda data: bytes(len(data)))),
    "a header and noise": ("database_damaged", lambda home: _overwrite(home, _foreign_pages)),
    "the last byte cut": ("database_damaged", lambda home: _overwrite(home, lambda data: data[:-1])),
    "no tables": ("database_damaged", lambda home: _no_tables(home)),
}


def _no_tables(home: Home) -> None:
    drop_database(home)
    with sqlite3.connect(home.database) as db:
        db.execute("create table x (y)")
        db.execute("drop table x")
    db.close()


@pytest.mark.parametrize("how", DAMAGES)
async def test_all_is_as_before(how: str, home: Home) -> None:
    """Sessions, tokens, tasks in their order, events, worktrees, metadata, versions, lists, targets."""
    code, damage = DAMAGES[how]
    location = Location("sqlite", home.database)
    _, before = await made(location, home)
    good = mirrors(home)
    damage(home)
    left = {name: read(os.path.join(home.path, name)) for name in os.listdir(home.path) if "state.db" in name}
    left.pop("state.db-shm", None)  # SQLite's scratch memory

    report, after = await healed_once(location, home)

    assert codes(report)[0] == code
    assert set(codes(report)[1:]) == {"session_missing", "deleted_not_in_database"}
    assert report.problems == []
    assert (after, mirrors(home)) == (before, good)
    kept = {os.path.basename(name): data for name, data in quarantined(home).items()}
    kept.pop("state.db-shm", None)
    assert kept == left
    if left:
        note = json.loads(read(os.path.join(os.path.dirname(report.done[0].kept[0]), "note.json")))
        assert note["from"] == home.database and note["why"] == report.findings[0].text


@pytest.mark.parametrize("part", range(1, 20))
async def test_cut_at_many_lengths(part: int, home: Home) -> None:
    """A file that ends too early, inside a page or between two."""
    location = Location("sqlite", home.database)
    _, before = await made(location, home)
    cut = read(home.database)[: os.path.getsize(home.database) * part // 20 + part % 3]
    write(home.database, cut)
    report, after = await healed_once(location, home)
    assert codes(report)[0] == "database_damaged"
    assert after == before
    assert cut in quarantined(home).values()


@pytest.mark.parametrize("part", range(1, 24))
async def test_corrupt_in_the_middle(part: int, home: Home) -> None:
    """A page of noise, wherever it is: all comes back."""
    location = Location("sqlite", home.database)
    _, before = await made(location, home)
    data = bytearray(read(home.database))
    page = len(data) // 4096 * part // 24
    data[page * 4096 : (page + 1) * 4096] = os.urandom(4096)
    write(home.database, bytes(data))
    _, after = await healed_once(location, home)
    assert after == before


async def test_text_that_is_no_text(home: Home) -> None:
    """What SQLite's own check does not see, since it is no matter of its trees: a name that is no UTF-8."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    db = apsw.Connection(home.database)
    db.execute("update session set host = cast(x'ff41ff' as text) where id = ?", (world.rich,))
    db.close()
    report, after = await healed_once(location, home)
    assert codes(report)[0] == "database_damaged"
    assert after == before


async def test_a_schema_that_is_not_ours_any_more(home: Home) -> None:
    """One letter in the name of a column: sound for SQLite, and no statement of ours would run."""
    location = Location("sqlite", home.database)
    _, before = await made(location, home)
    data = read(home.database)
    assert data.count(b"outcome text") == 1
    write(home.database, data.replace(b"outcome text", b"outcode text"))
    report, after = await healed_once(location, home)
    assert (codes(report)[0], after) == ("database_damaged", before)


async def test_damage_in_a_file_too_large_to_be_read_at_every_start(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is met when that page is needed, and then the file is rebuilt all the same."""
    monkeypatch.setattr(database, "SMALL", 0)
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    db = apsw.Connection(home.database)
    (root,) = db.execute("select rootpage from sqlite_schema where name = 'log_place'").fetchone() or (0,)
    db.close()
    data = bytearray(read(home.database))
    data[(root - 1) * 4096 : root * 4096] = os.urandom(4096)
    write(home.database, bytes(data))
    os.unlink(home.mirror(world.plain))  # to be made anew from that log

    report, after = await healed_once(location, home)

    assert codes(report)[0] == "database_damaged"
    assert after == before, "the log is readable without its index"


async def test_the_feed_begins_anew_and_says_so(home: Home) -> None:
    """A cursor of the lost database is answered from the start, with `gap`; work goes on."""
    location = Location("sqlite", home.database)
    world, _ = await made(location, home)
    async with opened(location, home) as store:
        cursor = await store.cursor()
    drop_database(home)
    store, _ = await open_healed(location, home, RULES)
    try:
        changes = await store.changes(cursor, limit=10_000)
        assert changes.gap and not changes.more
        seqs: dict[str, list[int]] = {}
        for change in changes.changes:
            seqs.setdefault(change.session, []).append(change.event.seq)
        for session, found in seqs.items():
            assert found == list(range(1, (await store.session(session)).events + 1))
        await store.commit(Commit(world.plain, [say("on")]))
        more = await store.changes(changes.cursor)
        assert [c.event.body["text"] for c in more.changes] == ["on"] and not more.gap
    finally:
        await store.close()


async def test_a_first_start_is_no_finding(home: Home) -> None:
    """An empty home, and one whose first start was cut short."""
    location = Location("sqlite", home.database)
    for empty in (False, True):
        if empty:
            drop_database(home)
            write(home.database, b"")
        store, report = await open_healed(location, home, RULES)
        await store.close()
        assert (report.findings, report.done, report.problems) == ([], [], [])


async def test_a_stray_wal_is_kept_even_when_nothing_else_is_there(home: Home) -> None:
    """SQLite would delete it unread; it may be all that is left of a database."""
    write(home.database + "-wal", b"the last of it")
    store, report = await open_healed(Location("sqlite", home.database), home, RULES)
    await store.close()
    assert codes(report) == ["database_missing"]
    assert b"the last of it" in quarantined(home).values()


async def test_the_database_of_another_program_is_refused(home: Home) -> None:
    """Not moved, not written: `--store` may have named the wrong file."""
    await made(Location("sqlite", home.database), home)
    path = os.path.join(home.path, "bookmarks.sqlite")
    with sqlite3.connect(path) as db:
        db.execute("create table bookmark (url)")
        db.execute("pragma user_version = 40")
    db.close()
    before = read(path)
    with pytest.raises(errors.StoreUnreadable, match=r"not one of Holdfast's"):
        await open_healed(Location("sqlite", path), home, RULES)
    assert read(path) == before and quarantined(home) == {}


async def test_a_newer_schema_is_refused(home: Home) -> None:
    """It is not damage; nothing is moved."""
    await made(Location("sqlite", home.database), home)
    db = apsw.Connection(home.database)
    db.execute("pragma user_version = 999")
    db.close()
    with pytest.raises(errors.SchemaNewer):
        await open_healed(Location("sqlite", home.database), home, RULES)
    assert quarantined(home) == {} and os.path.exists(home.database)


async def test_a_directory_in_its_place_is_refused(home: Home) -> None:
    """One clear error."""
    os.mkdir(home.database)
    with pytest.raises(errors.StoreUnreadable, match="is a directory"):
        await open_healed(Location("sqlite", home.database), home, RULES)


async def test_a_database_outside_the_home(home: Home) -> None:
    """Another path than state.db is put aside and rebuilt just so."""
    os.mkdir(os.path.join(home.path, "else"))
    location = Location("sqlite", os.path.join(home.path, "else", "my.sqlite"))
    async with opened(location, home) as store:
        session = (await store.create_session("claude", key="k")).id
        before = await photo(store)
    os.unlink(location.address + "-wal")
    write(location.address, b"no database")
    report, after = await healed_once(location, home)
    assert (after, codes(report)) == (before, ["database_damaged", "session_missing"])
    assert b"no database" in quarantined(home).values()
    assert after[session].lines


async def test_a_database_on_another_disk(home: Home) -> None:
    """A file cannot be moved into the home from there; it is put aside where it lies."""
    with scratch() as folder:
        if os.stat(folder).st_dev == os.stat(home.path).st_dev:
            pytest.skip("there is only one disk here")
        location = Location("sqlite", os.path.join(folder, "state.db"))
        async with opened(location, home) as store:
            await store.create_session("claude", key="k")
            before = await photo(store)
        write(location.address, b"no database")
        report, after = await healed_once(location, home)
        assert after == before
        assert read(report.done[0].kept[0]) == b"no database"
        assert report.done[0].kept[0].startswith(folder)
