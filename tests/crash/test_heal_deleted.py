"""A deleted session stays deleted, whichever copy survives, and can still be restored with all it had."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable

import pytest

from holdfast import durable_io
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery.heal import open_healed
from holdfast.store.location import Location
from tests.crash.heal_support import (
    RULES,
    back_up,
    codes,
    drop_database,
    healed_once,
    made,
    opened,
    put_back,
    quarantined,
    read,
    say,
    seen,
    write,
)


def _unreadable(path: str) -> None:
    write(path, b'{"session": "torn')


def _fifo(path: str) -> None:
    os.unlink(path)
    os.mkfifo(path)


def _directory(path: str) -> None:
    os.unlink(path)
    os.mkdir(path)


TOMBSTONE: dict[str, Callable[[str], None]] = {
    "there": lambda path: None,
    "gone": os.unlink,
    "unreadable": _unreadable,
}
FILE: dict[str, Callable[[Home, str], None]] = {
    "in the trash": lambda home, session: None,
    "gone": lambda home, session: os.unlink(home.trashed(session)),
    "back among the live": lambda home, session: os.rename(home.trashed(session), home.mirror(session)),
    "in both": lambda home, session: write(home.mirror(session), read(home.trashed(session))),
    "an older one back": lambda home, session: write(
        home.mirror(session), b"".join(read(home.trashed(session)).splitlines(keepends=True)[:3])
    ),
}
# With these nothing is left that says when, by whom, or even surely that it was deleted.
NOTHING_LEFT = {("old", "gone", "gone"), ("old", "unreadable", "gone")}


@pytest.mark.parametrize(
    ("database", "tombstone", "file"),
    [
        case
        for case in itertools.product(("whole", "old", "gone"), TOMBSTONE, FILE)
        if case not in NOTHING_LEFT
    ],
)
async def test_it_stays_deleted(database: str, tombstone: str, file: str, home: Home) -> None:
    """Whatever is lost of database, tombstone and mirror; then it is restored as it was."""
    location, copy = Location("sqlite", home.database), os.path.join(home.path, "copy.db")
    async with opened(location, home) as store:
        session = (await store.create_session("claude", key="k", title="secret")).id
        other = (await store.create_session("claude")).id
        await store.commit(Commit(session, [say("one"), say("two")]))
        await store.with_mirrors(lambda files: None)
        back_up(home, copy)
        await store.commit(Commit(session, [say("three")]))
        await store.see_token(session, "claude", "native")
        deleted = await store.delete(session, "me", "no more")
        before = await seen(store, session)
    if database == "old":
        put_back(home, copy)
    elif database == "gone":
        drop_database(home)
    os.unlink(copy)
    FILE[file](home, session)
    TOMBSTONE[tombstone](home.tombstone(session))

    _, after = await healed_once(location, home)

    assert not os.path.exists(home.mirror(session))
    if (database, file) == ("gone", "gone"):
        assert after["listed all"] == [] and session not in after  # it is not even made up
        return
    assert os.path.exists(home.tombstone(session))
    assert (after["listed deleted"], after[f"header {other}"].state) == ([session], "live")
    if _told_all(database, tombstone, file):
        assert after[session] == before
        assert after[session].view.session.deletion == deleted.deletion
    await _restore(location, home, session, after[session].lines)


def _told_all(database: str, tombstone: str, file: str) -> bool:
    """Whether a whole copy of the log was left."""
    return database == "whole" or file in (
        "in the trash",
        "back among the live",
        "in both",
        "an older one back",
    )


async def _restore(location: Location, home: Home, session: str, lines: list[str]) -> None:
    async with opened(location, home) as store:
        restored = await store.restore(session, "me")
        assert (restored.state, restored.key, restored.title) == ("live", "k", "secret")
        now = await seen(store, session)
        assert now.lines[: len(lines)] == lines and len(now.lines) == len(lines) + 1
    report, _ = await healed_once(location, home)
    assert [c for c in codes(report) if c not in ("unreadable_file", "mirror_torn")] in (
        [],
        ["mirror_missing"],
    )
    assert read(home.mirror(session)).count(b"\n") == len(now.lines)


@pytest.mark.parametrize("what", ["file back", "tombstone gone", "unreadable", "a directory", "a fifo"])
async def test_on_both_stores(what: str, location: Location, home: Home) -> None:
    """With the database whole, nothing but a live restore brings it back."""
    world, before = await made(location, home)
    tombstone = home.tombstone(world.deleted)
    spoil = {
        "tombstone gone": os.unlink,
        "unreadable": _unreadable,
        "a directory": _directory,
        "a fifo": _fifo,
    }
    if what in spoil:
        spoil[what](tombstone)
    else:
        shutil.copy2(home.trashed(world.deleted), home.mirror(world.deleted))
    kept = read(home.trashed(world.deleted))

    report, after = await healed_once(location, home)

    assert after == before
    expected = {"file back": "deleted_reappeared", "tombstone gone": "tombstone_missing"}
    assert codes(report) == [expected.get(what, "unreadable_file")]
    assert not os.path.exists(home.mirror(world.deleted))
    assert read(home.trashed(world.deleted)) == kept


async def test_a_file_that_came_back_changed_is_kept(home: Home) -> None:
    """Both copies of a deleted session are kept: the better one in the trash, the other in quarantine."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    good = read(home.trashed(world.deleted))
    write(home.mirror(world.deleted), b"an odd little file\n")
    report, after = await healed_once(location, home)
    assert (codes(report), after) == (["deleted_reappeared"], before)
    assert read(home.trashed(world.deleted)) == good
    assert list(quarantined(home).values()) == [b"an odd little file\n"]


async def test_a_tombstone_of_another_session_says_nothing(home: Home) -> None:
    """A tombstone copied to a live session's name does not delete that session."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    shutil.copy2(home.tombstone(world.deleted), home.tombstone(world.plain))
    for gone in (False, True):
        if gone:
            os.unlink(home.tombstone(world.plain))
            drop_database(home)
        report, after = await healed_once(location, home)
        assert after == before
        if not gone:
            assert codes(report) == ["unreadable_file"]


async def test_a_delete_that_would_have_been_refused(home: Home) -> None:
    """A crash right after the tombstone, while a task runs: the session stays, the tombstone is kept."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    note = b'{"session":"%s","deletion":{"id":"x","by":"me","reason":"r","at":""}}' % world.rich.encode()
    write(home.tombstone(world.rich), note)
    report, after = await healed_once(location, home)
    assert (codes(report), after) == (["delete_unfinished"], before)
    assert "not deleted" in report.done[0].result
    assert list(quarantined(home).values()) == [note]
    assert not os.path.exists(home.tombstone(world.rich))


async def test_a_restore_whose_tombstone_was_left_and_whose_database_is_gone(home: Home) -> None:
    """The mirror tells of the restore that the tombstone does not know: it lives."""
    location = Location("sqlite", home.database)
    world, _ = await made(location, home)
    tombstone = read(home.tombstone(world.deleted))
    async with opened(location, home) as store:
        await store.archive(world.restored, "me", "the key is wanted")
        await store.restore(world.deleted, "me")
        before = await seen(store, world.deleted)
    write(home.tombstone(world.deleted), tombstone)
    drop_database(home)
    _, after = await healed_once(location, home)
    assert after[world.deleted] == before
    assert not os.path.exists(home.tombstone(world.deleted))


async def test_deleted_sessions_take_no_key_and_no_place_in_a_rebuild(home: Home) -> None:
    """The key of a deleted session is free for the one that got it since, in any order of rebuilding."""
    location = Location("sqlite", home.database)
    async with opened(location, home) as store:
        for i in range(8):
            session = (await store.create_session("claude", key="k")).id
            await store.commit(Commit(session, [say(str(i))]))
            if i < 7:
                await (store.delete if i % 2 else store.archive)(session, "me", "next")
    drop_database(home)
    store, report = await open_healed(location, home, RULES)
    try:
        assert report.problems == []
        assert (await store.session(session)).state == "live"
        assert await store.resolve("k") == session
        assert [h.state for h in (await store.sessions(state="all")).sessions].count("archived") == 4
    finally:
        await store.close()


def _torn(data: bytes) -> bytes:
    return data[:-20]


def _short(data: bytes) -> bytes:
    return b"".join(data.splitlines(keepends=True)[:-1])


def _altered(data: bytes) -> bytes:
    return data.replace(b"forgotten", b"forgiven!")


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "torn": _torn,
    "short": _short,
    "altered": _altered,
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_power_cut_during_the_deletion(damage: str, location: Location, home: Home) -> None:
    """The start that finishes the deletion moves a whole mirror into the trash."""
    world, before = await made(location, home)
    whole = read(home.trashed(world.deleted))
    os.unlink(home.trashed(world.deleted))
    write(home.mirror(world.deleted), DAMAGE[damage](whole))

    report, after = await healed_once(location, home)

    assert (codes(report), after) == (["deleted_reappeared"], before)
    assert read(home.trashed(world.deleted)) == whole
    kept = [] if damage == "short" else [DAMAGE[damage](whole)]
    assert (list(quarantined(home).values()), len(report.done[0].kept)) == (kept, len(kept))
    assert codes((await healed_once(location, home, deep=True))[0]) == []


@pytest.mark.parametrize("step", ["rename", "link", "unlink"])
async def test_a_kill_while_the_deletion_is_finished(
    step: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each step that changes the torn mirror, the next start notices it and goes on."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    whole = read(home.trashed(world.deleted))
    os.unlink(home.trashed(world.deleted))
    write(home.mirror(world.deleted), _torn(whole))
    change: Callable[..., None] = getattr(durable_io.DISK, step)

    def die(path: str, *more: str) -> None:
        if path == home.mirror(world.deleted) or more == (home.mirror(world.deleted),):
            raise OSError("killed")
        change(path, *more)

    with monkeypatch.context() as patched:
        patched.setattr(durable_io.DISK, step, die)
        store, report = await open_healed(location, home, RULES)
        await store.close()
    assert report.problems == [f"deleted_reappeared {world.deleted}: killed"]

    _, after = await healed_once(location, home)

    assert (after, read(home.trashed(world.deleted))) == (before, whole)
    assert codes((await healed_once(location, home, deep=True))[0]) == []


@pytest.mark.parametrize("damage", DAMAGE)
async def test_damage_in_the_trash_is_reported(damage: str, home: Home) -> None:
    """A deep comparison reads the trash too, and recreates a damaged mirror there."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    whole = read(home.trashed(world.deleted))
    write(home.trashed(world.deleted), DAMAGE[damage](whole))

    report, after = await healed_once(location, home, deep=True)

    code = {
        "torn": "mirror_torn",
        "short": "mirror_short",
        "altered": "conflict",
        "empty": "mirror_empty",
    }
    assert (codes(report), after) == ([code[damage]], before)
    assert read(home.trashed(world.deleted)) == whole
    assert list(quarantined(home).values()) == [DAMAGE[damage](whole)]
