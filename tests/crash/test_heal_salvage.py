"""A damaged database and mirrors that are not whole: each gives what it still has, nothing is mixed up."""

from __future__ import annotations

import os
from collections.abc import Callable

import apsw
import pytest

from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.store.location import Location
from tests.crash.heal_support import (
    World,
    codes,
    healed_once,
    made,
    mirrors,
    opened,
    quarantined,
    read,
    say,
    write,
)


def break_softly(home: Home) -> None:
    """A database that SQLite calls damaged and that can still be read: an index lacks its entries."""
    db = apsw.Connection(home.database)
    (root,) = db.execute("select rootpage from sqlite_schema where name = 'token_native'").fetchone() or (0,)
    db.execute("pragma wal_checkpoint(truncate)")
    db.close()
    data = bytearray(read(home.database))
    data[(root - 1) * 4096 : root * 4096] = bytes([10, 0, 0, 0, 0, 0x10, 0, 0]) + bytes(4088)
    write(home.database, bytes(data))


def _cut(data: bytes, lines: int) -> bytes:
    return b"".join(data.splitlines(keepends=True)[:lines])


SPOILED: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda data: None,
    "empty": lambda data: b"",
    "behind": lambda data: _cut(data, 4),
    "torn at the end": lambda data: data[:-9],
    "torn in its first line": lambda data: data[7:],
    "torn in the middle": lambda data: data.replace(b'"kind":"assistant"', b'"ki\n', 2),
    "altered in the middle": lambda data: data.replace(b'"op":"queue"', b'"op":"qufue"'),
    "no mirror": lambda data: b"hello\n" * 9,
    "of another session": lambda data: data.replace(b'{"session":"s', b'{"session":"t'),
}


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize("which", ["plain", "deleted", "rich"])
async def test_what_a_mirror_lacks_the_damaged_database_gives(how: str, which: str, home: Home) -> None:
    """Nothing is lost: the views and all lines are as before, and the mirrors are level again."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    good = mirrors(home)
    session = getattr(world, which)
    path = home.trashed(session) if which == "deleted" else home.mirror(session)
    spoiled = SPOILED[how](read(path))
    if spoiled is None:
        os.unlink(path)
    else:
        write(path, spoiled)
    break_softly(home)

    report, after = await healed_once(location, home)

    assert codes(report)[0] == "database_damaged"
    assert after == before
    assert mirrors(home) == good


async def test_a_mirror_ahead_of_a_damaged_database(home: Home) -> None:
    """The mirror has the end, the database the middle: together they have all."""
    location = Location("sqlite", home.database)
    world, _ = await made(location, home)
    old = read(home.database)
    async with opened(location, home) as store:
        await store.commit(Commit(world.plain, [say("newer", "n1")]))
        await store.commit(Commit(world.plain, [say("newest", "n2")]))
    good = read(home.mirror(world.plain))
    for ending in ("-wal", "-shm"):
        os.unlink(home.database + ending)
    write(home.database, old)
    break_softly(home)
    write(home.mirror(world.plain), good.replace(b'"record_id":"r1"', b"torn"))

    _, after = await healed_once(location, home)

    texts = [line for line in after[world.plain].lines if "newe" in line]
    assert len(texts) == 2 and len(after[world.plain].lines) == good.count(b"\n")
    assert not [line for line in after[world.plain].lines if "record_lost" in line]
    assert read(home.mirror(world.plain)) == good


async def test_what_a_checksum_vouches_for_wins_over_a_damaged_database(home: Home) -> None:
    """A letter that changed in the database's text is not believed where the mirror's commit is whole."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    good = read(home.mirror(world.plain))
    data = read(home.database)
    assert data.count(b'"the end"') == 1
    write(home.database, data.replace(b'"the end"', b'"the And"'))
    break_softly(home)
    write(home.mirror(world.plain), good.replace(b'"record_id":"r1"', b"torn"))
    report, after = await healed_once(location, home)
    assert (after, read(home.mirror(world.plain))) == (before, good)
    assert "conflict" not in codes(report)


async def test_a_damaged_mirror_alone_gives_what_is_readable(home: Home) -> None:
    """With no database at all, what is before and behind the damage is there, and the bytes are kept."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    good = read(home.mirror(world.plain))
    lines = good.splitlines(keepends=True)
    bad = b"".join([*lines[:2], lines[2][:60] + b"\n", *lines[3:]])
    write(home.mirror(world.plain), bad)
    for ending in ("", "-wal", "-shm"):
        os.unlink(home.database + ending)

    _, after = await healed_once(location, home)

    was, now = before[world.plain].lines, after[world.plain].lines
    assert [*now[:2], *now[3:]] == [*was[:2], *was[3:]]
    assert '"code":"record_lost"' in now[2]
    assert list(quarantined(home).values()) == [bad]


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"op":"seen"', b'"op":"sefn"'), (b'"kind":"token"', b'"kind":"to\xffen"')],
    ids=["flipped", "unreadable"],
)
async def test_a_change_that_cannot_be_read_costs_only_itself(old: bytes, new: bytes, home: Home) -> None:
    """One flipped letter in a token's record does not cost the session that the mirror alone still has."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    bad = read(home.mirror(world.rich)).replace(old, new, 1)
    write(home.mirror(world.rich), bad)
    for ending in ("", "-wal", "-shm"):
        os.unlink(home.database + ending)

    _, after = await healed_once(location, home)

    assert [t.native_id for t in after[world.rich].view.tokens] == ["new"]
    assert after[world.rich].target == before[world.rich].target
    assert len(after[world.rich].lines) == len(before[world.rich].lines)
    assert bad in quarantined(home).values()


async def test_two_histories_in_mirror_and_damaged_database_are_not_mixed(home: Home) -> None:
    """What the damaged database has behind another last record is left where it is."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    lines = read(home.mirror(world.plain)).splitlines(keepends=True)
    other = await _another_story(home, world, lines)
    break_softly(home)
    _, after = await healed_once(location, home)
    assert [line for line in after[world.plain].lines if "another story" in line]
    assert not [line for line in after[world.plain].lines if "the end" in line]
    assert read(home.mirror(world.plain)) == other
    assert after[world.rich] == before[world.rich]


async def _another_story(home: Home, world: World, lines: list[bytes]) -> bytes:
    """The mirror as if record 5 had been another one, and no sixth had followed."""
    from holdfast.store.mirror import format

    record = format.read(world.plain, lines[4][:-1]).record
    later = record._replace(body='{"text":"another story"}', at="2026-01-01T00:00:00.000000Z")
    told, _ = format.write(world.plain, later)
    write(home.mirror(world.plain), b"".join([*lines[:4], told]))
    return b"".join([*lines[:4], told])
