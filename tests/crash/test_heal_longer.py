"""The database is an older copy of itself: what only the mirrors have goes back, in order, once."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import pytest

from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.session import Worktree
from holdfast.store.location import Location
from holdfast.store.store import Store
from tests.crash.heal_support import (
    OWNER,
    Photo,
    back_up,
    codes,
    fill,
    healed_once,
    mirrors,
    opened,
    photo,
    put_back,
    quarantined,
    read,
    say,
    write,
)

Story = Callable[[Store, str, str], Awaitable[None]]


async def _told(home: Home, first: Story, then: Story, turned: bool = False) -> tuple[str, str, Photo]:
    """Two sessions, `first`, a copy of the database, `then`; the copy is back and all else stayed."""
    location, copy = Location("sqlite", home.database), os.path.join(home.path, "copy.db")
    async with opened(location, home) as store:
        one = (await store.create_session("claude", metadata={"v": 1})).id
        two = (await store.create_session("claude", metadata={"v": 1})).id
        if turned:  # they are put back in the order in which they were made
            one, two = two, one
        await store.describe(one, key="k")
        await store.commit(Commit(one, [say("before", "b1"), say("before", "b2")]))
        await first(store, one, two)
        await store.with_mirrors(lambda files: None)
        back_up(home, copy)
        await then(store, one, two)
        before = await photo(store)
    put_back(home, copy)
    return one, two, before


async def _nothing(store: Store, one: str, two: str) -> None:
    return None


async def _went_on(store: Store, one: str, two: str) -> None:
    task = await store.enqueue(one, "go on")
    await store.claim(task.id, 0, OWNER, 60)
    await store.commit(Commit(one, [say("x", "a1"), say("y", "a2")], task=task.id, generation=1, spool=9))
    await store.see_token(one, "claude", "n-1", task=task.id)
    await store.see_token(one, "claude", "n-2", task=task.id)
    await store.set_status(task.id, "succeeded", generation=1, outcome={"ok": True})
    await store.patch_metadata(one, {"v": 2, "w": "é"}, 1)
    tree = Worktree("/w", "b", "/r", "2026-01-01T00:00:00.000000Z")
    await store.describe(one, title="named", worktree=tree)
    for i in range(30):
        await store.commit(Commit(two, [say(f"{i}.{j}", f"{i}.{j}") for j in range(3)]))


async def test_missing_records_go_back_in_order_once(home: Home) -> None:
    """Events, tokens, tasks, metadata and worktree are as before; the mirrors are not touched."""
    one, two, before = await _told(home, _nothing, _went_on)
    good = mirrors(home)

    report, after = await healed_once(Location("sqlite", home.database), home)

    assert sorted(codes(report)) == ["database_behind"] * 2
    assert {d.subject: d.result for d in report.done} == {
        one: "restored 9 records to the database",
        two: "restored 90 records to the database",
    }
    assert (after, mirrors(home), quarantined(home)) == (before, good, {})


async def test_an_origin_that_came_back_is_not_stored_twice(home: Home) -> None:
    """What the runner sends again after the loss is dropped by its origin."""
    one, _, before = await _told(home, _nothing, _went_on)
    location = Location("sqlite", home.database)
    await healed_once(location, home)
    async with opened(location, home) as store:
        again = await store.commit(Commit(one, [say("x", "a1"), say("y", "a2")]))
        assert (again.dropped, len(again.seqs)) == (2, 0)
        assert await photo(store) == before


async def test_new_sessions_come_back(home: Home) -> None:
    """Sessions that the old database never saw, with their prompts in the order they were queued."""

    async def then(store: Store, one: str, two: str) -> None:
        await store.enqueue(one, "first")
        await fill(store)
        await store.enqueue(one, "last")

    _, _, before = await _told(home, _nothing, then)
    report, after = await healed_once(Location("sqlite", home.database), home)
    assert after == before
    assert set(codes(report)) == {"session_missing", "deleted_not_in_database", "database_behind"}
    assert report.sessions == len([name for name in before if name.startswith("header ")])


async def _archived(store: Store, one: str, two: str) -> None:
    await store.archive(one, "me", "User terminated")


async def _deleted(store: Store, one: str, two: str) -> None:
    await store.commit(Commit(one, [say("last words", "l1")]))
    await store.delete(one, "me", "done with it")


async def _deleted_and_restored(store: Store, one: str, two: str) -> None:
    await _deleted(store, one, two)
    await store.restore(one, "me")
    await store.commit(Commit(one, [say("alive", "l2")]))


async def _deleted_twice(store: Store, one: str, two: str) -> None:
    await _deleted_and_restored(store, one, two)
    await store.delete(one, "me", "for good")


async def _restored(store: Store, one: str, two: str) -> None:
    await store.restore(one, "me")


async def _key_moved(store: Store, one: str, two: str) -> None:
    await store.describe(one, key="other")
    await store.describe(two, key="k")


async def _key_to_new(store: Store, one: str, two: str) -> None:
    await store.archive(one, "me", "handed off")
    await store.create_session("gemini", key="k")


async def _key_of_deleted(store: Store, one: str, two: str) -> None:
    await store.delete(one, "me", "no more")
    await store.describe(two, key="k")


async def _key_to_smaller(store: Store, one: str, two: str) -> None:
    await store.describe(two, key="k2")
    await store.describe(one, key=None)
    await store.describe(two, key="k")
    await store.describe(one, key="k2")


STORIES: dict[str, tuple[Story, Story]] = {
    "archived": (_nothing, _archived),
    "deleted": (_nothing, _deleted),
    "deleted and restored": (_nothing, _deleted_and_restored),
    "deleted, restored, deleted": (_nothing, _deleted_twice),
    "deleted in the copy, then restored": (_deleted, _restored),
    "archived in the copy, then taken out": (_archived, lambda s, one, two: _unarchive(s, one)),
    "the key moved": (_nothing, _key_moved),
    "the key moved to a new session": (_nothing, _key_to_new),
    "the key of a deleted session": (_nothing, _key_of_deleted),
    "the key moved in circles": (_nothing, _key_to_smaller),
}


async def _unarchive(store: Store, one: str) -> None:
    await store.unarchive(one, "me")


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("story", STORIES)
async def test_what_the_old_database_does_not_know(story: str, turned: bool, home: Home) -> None:
    """Archived, deleted, restored, keys that changed hands: all as it was told last."""
    _, _, before = await _told(home, *STORIES[story], turned=turned)
    _, after = await healed_once(Location("sqlite", home.database), home)
    assert after == before
    assert quarantined(home) == {}


async def test_longer_and_torn_at_its_end(home: Home) -> None:
    """The whole commits behind the old database's end go back; the torn one is kept aside."""
    _, two, _ = await _told(home, _nothing, _went_on)
    torn = read(home.mirror(two))[:-20]
    write(home.mirror(two), torn)

    report, after = await healed_once(Location("sqlite", home.database), home)

    found = {f.subject: (f.code, f.evidence.get("new")) for f in report.findings}
    assert found[two] == ("mirror_torn", 29 * 3)
    assert len(after[two].lines) == 1 + 29 * 3
    assert list(quarantined(home).values()) == [torn]
    assert read(home.mirror(two)) == b"".join(torn.splitlines(keepends=True)[: 1 + 29 * 3])


async def test_longer_and_torn_while_a_key_changed_hands(home: Home) -> None:
    """What a damaged mirror gives up comes before the session that got its key."""
    one, _, before = await _told(home, _nothing, _key_to_new)
    write(home.mirror(one), read(home.mirror(one)) + b"torn")
    _, after = await healed_once(Location("sqlite", home.database), home)
    assert after == before
    assert after["listed archived"] == [one]


async def test_longer_and_damaged_in_its_new_part(home: Home) -> None:
    """What is readable behind the damage goes back too; a notice with the bytes keeps the place."""
    _, two, before = await _told(home, _nothing, _went_on)
    lines = read(home.mirror(two)).splitlines(keepends=True)
    bad = [*lines[:10], lines[10].replace(b'"text"', b'"te\xfft"'), *lines[11:]]
    write(home.mirror(two), b"".join(bad))

    _, after = await healed_once(Location("sqlite", home.database), home)

    kept, was = after[two].lines, before[two].lines
    assert (kept[:10], kept[11:]) == (was[:10], was[11:])
    assert '"kind":"notice"' in kept[10] and "record_lost" in kept[10]
    assert list(quarantined(home).values()) == [b"".join(bad)]


@pytest.mark.parametrize("spot", ["early", "at the end of the old database"])
async def test_longer_and_damaged_in_its_old_part(spot: str, home: Home) -> None:
    """New records are joined to the log only where the mirror has the log's last record, too."""

    async def first(store: Store, one: str, two: str) -> None:
        for i in range(4):
            await store.commit(Commit(two, [say(str(i), f"f{i}")]))

    _, two, before = await _told(home, first, _went_on)
    lines = read(home.mirror(two)).splitlines(keepends=True)
    place = 2 if spot == "early" else 4
    bad = b"".join([*lines[:place], lines[place][:50] + b"\n", *lines[place + 1 :]])
    write(home.mirror(two), bad)

    report, after = await healed_once(Location("sqlite", home.database), home)

    code = {f.subject: f.code for f in report.findings}[two]
    assert list(quarantined(home).values()) == [bad]
    if spot == "early":
        assert (code, after[two].lines) == ("mirror_torn", before[two].lines)
    else:
        assert (code, after[two].lines) == ("conflict", before[two].lines[:5])


async def test_both_histories_went_on(home: Home) -> None:
    """After an old copy was put back, work went on in it: both are kept, nothing is guessed."""
    _, two, _ = await _told(home, _nothing, _went_on)
    location = Location("sqlite", home.database)
    other_history = read(home.mirror(two))
    async with opened(location, home) as store:  # a program that does not heal
        await store.commit(Commit(two, [say("another story", "z1"), say("of this", "z2")]))
        database = await photo(store)
    assert read(home.mirror(two)) == other_history, "the keeper wrote into a mirror that is not its own"

    report, after = await healed_once(location, home)

    found = {f.subject: f for f in report.findings}[two]
    assert (found.code, found.evidence["seqs"]) == ("conflict", [2, 3])
    assert found.evidence["beyond"] == 88
    assert after[two] == database[two]
    assert list(quarantined(home).values()) == [other_history]


async def test_an_edited_line_and_new_ones(home: Home) -> None:
    """Same seq, other content: nothing behind it is believed either."""
    one, two, before = await _told(home, _nothing, _went_on)
    edited = read(home.mirror(one)).replace(b'"before"', b'"BEFORE"')
    write(home.mirror(one), edited)
    report, after = await healed_once(Location("sqlite", home.database), home)
    found = {f.subject: f for f in report.findings}[one]
    assert (found.code, found.evidence["seqs"], found.evidence["new"]) == ("conflict", [3, 4], 0)
    assert after[one].lines == before[one].lines[:4]
    assert after[two] == before[two]
    assert list(quarantined(home).values()) == [edited]
