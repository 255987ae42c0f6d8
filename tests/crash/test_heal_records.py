"""A row of the log that is not a record, in a database that SQLite calls sound, without a better copy."""

from __future__ import annotations

import json
import os

import pytest

from holdfast.doctor import own_home
from holdfast.home import Home
from holdfast.recovery.findings import Report
from holdfast.store.location import Location
from tests.crash.heal_support import Photo, World, codes, healed_once, made, mirrors, opened, read, write
from tests.crash.test_heal_text import spoil

# seq 4 of the rich session; seq 1 is its creation.
DAMAGE = {
    "not JSON": "update log set body = replace(body, '\"', ';') where n = 1 and seq = 4",
    "JSON, not an object": "update log set body = '[]' where n = 1 and seq = 4",
    "an empty body": "update log set body = '' where n = 1 and seq = 4",
    "an origin that is not JSON": "update log set origin = '{' where n = 1 and seq = 4",
    "a time that is none": "update log set at = 'noon' where n = 1 and seq = 4",
    "the creation": "update log set body = '{' where n = 1 and seq = 1",
}


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("what", DAMAGE)
async def test_without_a_mirror_the_record_is_reported_as_lost(what: str, deep: bool, home: Home) -> None:
    """The finding names it, a notice replaces it, its bytes are in quarantine, all others are unchanged."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    spoil(home, DAMAGE[what])
    os.unlink(home.mirror(world.rich))
    found = {one.code: one for one in (await own_home.diagnose(home, location)).findings}
    seq = 1 if what == "the creation" else 4
    assert found["record_damaged"].evidence["lost"] == [str(seq)] and found["record_damaged"].action

    report, after = await healed_once(location, home, deep=deep)

    assert codes(report) == ["mirror_missing", "record_damaged"]
    check(home, world, before, after, report, seq)


async def test_a_mirror_with_the_same_damage_is_rewritten(home: Home) -> None:
    """As written by a version that copied the row: both copies agree, and neither can be read."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    spoil(home, DAMAGE["not JSON"])
    os.unlink(home.mirror(world.rich))
    async with opened(location, home):
        pass
    good = mirrors(home)
    assert world.rich not in good
    async with opened(location, home) as store:
        from holdfast.recovery import mirror_repair

        await store.query(lambda sql: mirror_repair._write_lines(sql, world.rich, home.mirror(world.rich)))
    report, after = await healed_once(location, home, deep=True)
    assert codes(report) == ["record_damaged"]
    check(home, world, before, after, report, 4)


async def test_a_record_that_the_mirror_lost_too(home: Home) -> None:
    """Two rows are damaged; the mirror has one of them. That one is restored, the other reported as lost."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    spoil(home, DAMAGE["not JSON"])
    spoil(home, "update log set body = '' where n = 1 and seq = 6")
    lines = read(home.mirror(world.rich)).splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"', b";")
    write(home.mirror(world.rich), b"".join(lines))
    report, after = await healed_once(location, home, deep=True)
    assert codes(report) == ["database_altered"]
    check(home, world, before, after, report, 4)


def check(home: Home, world: World, before: Photo, after: Photo, report: Report, seq: int) -> None:
    """One record of the rich session is a notice now; nothing else changed."""
    (done,) = [one for one in report.done if one.lost]
    assert (done.lost, report.unhealed, report.problems) == ([str(seq)], [], [])
    assert all(os.path.exists(path) for path in done.kept) and done.kept
    for name, value in before.items():
        if name not in (world.rich, f"header {world.rich}"):
            assert after[name] == value, name
    lines = [json.loads(line) for line in read(home.mirror(world.rich)).splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    body = lines[seq - 1]["body"]
    assert "record_lost" in (body["metadata"] if seq == 1 else body["code"])
