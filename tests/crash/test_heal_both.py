"""Both copies damaged, or one altered: the right one wins, what is readable comes back, loss is told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import apsw
import pytest

from holdfast.home import Home
from holdfast.recovery.findings import Report
from holdfast.store.location import Location
from tests.crash.heal_support import (
    World,
    codes,
    drop_database,
    healed,
    healed_once,
    made,
    mirrors,
    quarantined,
    read,
    write,
)
from tests.crash.test_heal_views import tamper
from tests.hub.asking import get
from tests.hub.running_hub import running

PAGE = 4096


def _without_mirrors(home: Home) -> None:
    for folder in (home.sessions, home.trash):
        for name in os.listdir(folder):
            if name.endswith(".jsonl"):
                os.unlink(os.path.join(folder, name))


def _root(home: Home, name: str) -> int:
    db = apsw.Connection(home.database)
    db.execute("pragma wal_checkpoint(truncate)")
    page = db.execute("select rootpage from sqlite_schema where name = ?", (name,)).get
    db.close()
    assert isinstance(page, int)
    return page


def _overwrite_page(home: Home, number: int, data: bytes) -> None:
    with open(home.database, "r+b") as file:
        file.seek((number - 1) * PAGE)
        file.write(data)


def told_lost(report: Report) -> dict[str, list[str]]:
    """The lost records by session, as the report tells them."""
    return {done.subject: done.lost for done in report.done if done.lost}


async def test_a_database_short_by_one_page_gives_all_the_rest(home: Home) -> None:
    """SQLite calls it malformed and opens nothing; `writable_schema` and the leaf pages read it."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    _without_mirrors(home)
    write(home.database, read(home.database)[:-PAGE])

    report, after = await healed_once(location, home)

    lost = told_lost(report)
    for session in world:
        was, now = before[session].lines, after[session].lines
        assert len(now) == len(was) or session == world.deleted, "its tombstone has it deleted once more"
        gone = [str(seq) for seq, (one, two) in enumerate(zip(was, now, strict=False), 1) if one != two]
        told = [str(seq) for part in lost.get(session, []) for seq in _seqs(part)]
        assert gone == told


def _seqs(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("name", ["log_place", "sqlite_autoindex_session_1", "session_recent", "task"])
async def test_a_damaged_index_or_view_costs_no_record(name: str, home: Home) -> None:
    """The log is readable by rowid; the rest is folded from it."""
    location = Location("sqlite", home.database)
    _, before = await made(location, home)
    _without_mirrors(home)
    _overwrite_page(home, _root(home, name), os.urandom(PAGE))
    report, after = await healed_once(location, home)
    assert (codes(report)[0], after, told_lost(report)) == ("database_damaged", before, {})


@pytest.mark.parametrize("name", ["sqlite_schema", "log", "session"])
async def test_a_damaged_root_leaves_the_leaves(name: str, home: Home) -> None:
    """Without the first page or the root of a tree nothing leads to its leaves any more; they are read."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    _without_mirrors(home)
    page = 1 if name == "sqlite_schema" else _root(home, name)
    is_leaf = read(home.database)[(page - 1) * PAGE] == 0x0D
    _overwrite_page(home, page, bytes(PAGE))
    report, after = await healed_once(location, home)
    assert codes(report)[0] == "database_damaged"
    if is_leaf and name == "session":  # the index on the ids has them, too
        assert all(after[session].lines == before[session].lines for session in world)
    elif not is_leaf:
        assert after == before


async def test_an_id_damaged_in_the_database_makes_no_second_session(home: Home) -> None:
    """It is known by its records, which the mirror of the true session has."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    good = mirrors(home)
    data = read(home.database).replace(
        world.plain.encode(), world.plain.replace("s", "s0", 1)[:16].encode(), 1
    )
    assert data != read(home.database)
    write(home.database, data)
    _, after = await healed_once(location, home, deep=True)
    assert (after, mirrors(home)) == (before, good)


async def test_a_mirror_without_its_first_line_gives_all_the_others(home: Home) -> None:
    """25 of 26 lines are 25 records; the lost one is named, and the bytes are kept."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    bad = read(home.mirror(world.rich)).split(b"\n", 1)[1]
    write(home.mirror(world.rich), bad)
    drop_database(home)

    report, after = await healed_once(location, home)

    was, now = before[world.rich].lines, after[world.rich].lines
    assert now[1:] == was[1:] and now[0] != was[0]
    (done,) = [one for one in report.done if one.subject == world.rich]
    assert (done.recovered, done.lost) == (len(was) - 1, ["1"])
    assert [read(path) for path in done.kept] == [bad]
    assert "1 record could not be read in any copy: 1" in done.result
    assert after[world.rich].view.session.agent == "cursor"
    assert "record_lost" in after[world.rich].view.session.metadata


async def test_stand_ins_are_not_counted_as_records(home: Home) -> None:
    """A torn line in the middle: five came back, one is lost."""
    location = Location("sqlite", home.database)
    world, _ = await made(location, home)
    lines = read(home.mirror(world.plain)).splitlines(keepends=True)
    write(home.mirror(world.plain), b"".join([*lines[:2], lines[2][:60] + b"\n", *lines[3:]]))
    drop_database(home)
    report, _ = await healed_once(location, home)
    (done,) = [one for one in report.done if one.subject == world.plain]
    assert (done.recovered, done.lost) == (5, ["3"])
    assert done.result.startswith("restored 5 records to the database")


async def test_what_has_no_repair_is_told_and_written_down_once(home: Home) -> None:
    """Where its bytes are, too; a second start tells it again, and writes nothing new."""
    location = Location("sqlite", home.database)
    await made(location, home)
    path = os.path.join(home.sessions, "szzzzzzzzzzzzzzz.jsonl")
    write(path, b"garbage\n")
    for _ in range(2):
        report, _ = await healed(location, home)
        (left,) = report.unhealed
        assert (left.code, left.subject, left.kept) == ("mirror_unreadable", "szzzzzzzzzzzzzzz", [path])
        (name,) = os.listdir(home.reports)
        (written,) = json.loads(read(os.path.join(home.reports, name)))["unhealed"]
        assert written["text"] == left.text and written["kept"] == [path]


def test_a_person_is_told_at_start(home: Home, tmp_path: Path) -> None:
    """On the terminal and in `/healthz`."""
    path = os.path.join(home.sessions, "szzzzzzzzzzzzzzz.jsonl")
    write(path, b"garbage\n")
    with running(home, str(tmp_path / "work")) as hub:
        (left,) = get(hub, "/healthz")["healed"]["unhealed"]
        assert (left["code"], left["kept"]) == ("mirror_unreadable", [path])
        assert get(hub, "/api/overview")["healed"]["unhealed"] == [left]
        assert "not healed szzzzzzzzzzzzzzz: mirror_unreadable" in hub.log()


ALTERED = {
    "a body": 'update log set body = \'{"text":"forged"}\' where n = 3 and seq = 5',
    "the last record": "update log set body = replace(body, 'second', 'SECOND') where n = 3 and seq = 6",
    "a time": "update log set at = '2020-01-01T00:00:00.000000Z' where n = 3 and seq = 6",
    "a kind": "update log set kind = 'thinking' where n = 3 and seq = 3",
    "a change": 'update log set body = \'{"op":"create","agent":"codex"}\' where n = 3 and seq = 1',
    "a change that is none": 'update log set body = \'{"op":"?"}\' where n = 3 and seq = 1',
    "a record gone": "delete from log where n = 3 and seq = 4",
}


async def _put_right(location: Location, home: Home, what: str) -> None:
    world, before = await made(location, home)
    good = mirrors(home)
    tamper(location, ALTERED[what])

    report, after = await healed_once(location, home, deep=True)

    assert codes(report) == ["database_altered"], report.findings
    assert (after, mirrors(home)) == (before, good)
    (done,) = report.done
    assert done.subject == world.plain and done.result == "restored 1 record from the mirror"
    (kept,) = quarantined(home).values()
    assert len(json.loads(kept)) == ("gone" not in what)


@pytest.mark.parametrize("what", ALTERED)
async def test_the_copy_whose_checksum_is_valid_wins(what: str, home: Home) -> None:
    """The database was altered behind our back: it gets its record back; the mirror is not touched."""
    await _put_right(Location("sqlite", home.database), home, what)


async def test_the_same_on_postgresql(postgres_url: str, home: Home) -> None:
    """One of them; the code is the same."""
    await _put_right(Location("postgres", postgres_url), home, "a body")


async def test_an_altered_database_and_a_damaged_mirror(home: Home) -> None:
    """Each is right where the other is not."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    good = mirrors(home)
    tamper(location, ALTERED["the last record"])
    bad = _tear(home, world)
    report, after = await healed_once(location, home, deep=True)
    assert codes(report) == ["database_altered"]
    assert (after, mirrors(home)) == (before, good)
    assert bad in quarantined(home).values()


def _tear(home: Home, world: World) -> bytes:
    bad = read(home.mirror(world.plain)).replace(b'"record_id":"r1"', b"torn")
    write(home.mirror(world.plain), bad)
    return bad
