"""Sessions: what they are created with, their keys, and being put away and taken out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from holdfast import errors, ids
from holdfast.model import changes as c
from holdfast.model.commit import Commit
from holdfast.model.session import Link, Worktree
from holdfast.store.store import Store
from tests.support.store_model import WORKTREE, log_of, nothing_changes, said


async def test_a_session_is_what_it_was_created_with(store: Store) -> None:
    parent = await store.create_session("codex")
    created = await store.create_session(
        "claude",
        key="forgejo:dev:o/r:1",
        cwd="/w/t",
        host="here",
        title="Fix it",
        worktree=WORKTREE,
        link=Link(parent.id, "fork"),
        metadata={"a": [1, {"b": None}]},
    )
    assert ids.is_id(created.id, ids.SESSION)
    assert (created.agent, created.key, created.cwd) == ("claude", "forgejo:dev:o/r:1", "/w/t")
    assert (created.host, created.title, created.worktree) == ("here", "Fix it", WORKTREE)
    assert created.link == Link(parent.id, "fork")
    assert created.metadata == {"a": [1, {"b": None}]}
    assert (created.state, created.version, created.archive, created.deletion) == ("live", 1, None, None)
    assert (created.events, created.messages, created.tasks) == (1, 0, 0)
    assert await store.session(created.id) == created


async def test_one_live_session_has_a_key_at_a_time(store: Store) -> None:
    first = await store.create_session("claude", key="k")
    async with nothing_changes(store):
        with pytest.raises(errors.KeyTaken) as refusal:
            await store.create_session("codex", key="k")
    assert refusal.value.facts["session"] == first.id
    await store.archive(first.id, "me", "completed")
    second = await store.create_session("codex", key="k")
    async with nothing_changes(store):
        with pytest.raises(errors.KeyTaken):
            await store.unarchive(first.id, "me")
    await store.archive(second.id, "me", "completed")
    assert (await store.unarchive(first.id, "me")).state == "live"


async def test_a_key_can_be_given_later_but_not_a_taken_one(store: Store) -> None:
    one = await store.create_session("claude", key="k")
    other = await store.create_session("claude")
    async with nothing_changes(store):
        with pytest.raises(errors.KeyTaken):
            await store.describe(other.id, key="k")
    assert (await store.describe(other.id, key="k2")).key == "k2"
    assert (await store.describe(one.id, key=None)).key is None
    assert (await store.describe(other.id, key="k")).key == "k"


async def test_describing_sets_what_is_given_and_leaves_the_rest(store: Store) -> None:
    before = await store.create_session("claude", key="k", cwd="/a", title="old", metadata={"m": 1})
    after = await store.describe(before.id, title="new", worktree=WORKTREE)
    assert (after.title, after.worktree) == ("new", WORKTREE)
    assert (after.key, after.cwd, after.metadata, after.version) == ("k", "/a", {"m": 1}, 1)
    after = await store.describe(before.id, title=None, worktree=None)
    assert (after.title, after.worktree, after.cwd) == (None, None, "/a")


async def test_a_description_that_could_not_be_read_back_is_refused(store: Store) -> None:
    session = await store.create_session("claude", cwd="/a")
    bad: list[dict[str, Any]] = [{"cwd": None}, {"link": None}, {"title": 5}, {"worktree": {"path": "/w"}}]
    async with nothing_changes(store):
        for given in bad:
            with pytest.raises(errors.BadInput):
                await store.describe(session.id, **given)


async def test_archiving_keeps_a_note_and_unarchiving_takes_it_away(store: Store) -> None:
    session = await store.create_session("claude")
    archived = await store.archive(session.id, "me", "completed")
    assert archived.state == "archived" and archived.archive is not None
    assert (archived.archive.by, archived.archive.reason) == ("me", "completed")
    assert archived.archive.at >= session.created_at
    live = await store.unarchive(session.id, "me")
    assert (live.state, live.archive) == ("live", None)
    async with nothing_changes(store):
        assert await store.unarchive(session.id, "me") == live


async def test_an_archive_note_without_a_reason_is_refused(store: Store) -> None:
    session = await store.create_session("claude")
    async with nothing_changes(store):
        with pytest.raises(errors.BadInput):
            await store.archive(session.id, "me", None)  # type: ignore[arg-type]


async def test_a_session_needs_an_agent(store: Store) -> None:
    with pytest.raises(errors.BadInput):
        await store.create_session("")
    with pytest.raises(errors.BadInput):
        await store.create_session(None)  # type: ignore[arg-type]


async def test_what_is_not_there_is_not_found(store: Store) -> None:
    nobody, nothing = ids.new(ids.SESSION), ids.new(ids.TASK)
    for answer in (
        store.session(nobody),
        store.events(nobody),
        store.event_lines(nobody),
        store.tokens(nobody),
        store.resume_target(nobody),
        store.archive(nobody, "me", "completed"),
        store.unarchive(nobody, "me"),
        store.delete(nobody, "me", "gone"),
        store.restore(nobody, "me"),
        store.patch_metadata(nobody, {}, 1),
        store.describe(nobody, title="x"),
        store.enqueue(nobody, "hi"),
        store.see_token(nobody, "claude", "n"),
        store.commit(Commit(nobody, [said()])),
        store.task(nothing),
        store.set_status(nothing, "cancelled"),
    ):
        with pytest.raises(errors.NotFound):
            await answer


async def test_a_session_id_is_always_one_of_ours(store: Store) -> None:
    """It names a file and stands in every line of the mirror."""
    async with nothing_changes(store):
        for name in ("../evil", "s", "", 'sx"y', "t" + "0" * 15, "s" + "i" * 15, "s/../x", "\ud800", "\0"):
            with pytest.raises(errors.BadInput):
                await store.commit(Commit(name, [c.Create(agent="claude")]))


async def test_a_log_has_one_beginning(store: Store) -> None:
    session = await store.create_session("claude")
    async with nothing_changes(store):
        with pytest.raises(errors.IllegalChange):
            await store.commit(Commit(session.id, [c.Create(agent="claude")]))
        fresh = ids.new(ids.SESSION)
        with pytest.raises(errors.NotFound):
            await store.commit(Commit(fresh, [said(), c.Create(agent="claude")]))


async def test_a_name_is_an_id_a_key_or_a_unique_beginning(store: Store) -> None:
    one = await store.create_session("claude", key="k:1")
    two = await store.create_session("claude")
    assert await store.resolve(one.id) == one.id
    assert await store.resolve("k:1") == one.id
    shared = next(i for i in range(16) if one.id[: i + 1] != two.id[: i + 1])
    assert await store.resolve(two.id[: shared + 1]) == two.id
    with pytest.raises(errors.Ambiguous):
        await store.resolve("s")


async def test_a_name_of_nothing_is_not_found(store: Store) -> None:
    await store.create_session("claude")
    names = ("", "nobody", "s%", "s_", "%", "\\", "s" + "z" * 15, "\0", "\ud800", "szzzz", "x" * 10_000)
    for name in names:
        for answer in (
            store.resolve(name),
            store.session(name),
            store.task(name),
            store.archive(name, "me", "completed"),
        ):
            with pytest.raises(errors.NotFound):
                await answer


async def test_letters_of_an_id_are_meant_as_they_are(store: Store) -> None:
    session = await store.create_session("claude")
    while not re.search("[a-z]", session.id[1:8]):
        session = await store.create_session("claude")
    with pytest.raises(errors.NotFound):
        await store.resolve("s" + session.id[1:8].upper())


async def test_a_key_means_its_live_session_then_the_latest_archived(store: Store) -> None:
    old = await store.create_session("claude", key="k")
    await store.archive(old.id, "me", "completed")
    newer = await store.create_session("claude", key="k")
    assert await store.resolve("k") == newer.id
    await store.archive(newer.id, "me", "completed")
    assert await store.resolve("k") == newer.id
    await store.delete(newer.id, "me", "gone")
    assert await store.resolve("k") == old.id


async def test_everything_is_there_after_reopening(store: Store, opener: Any) -> None:
    session = await store.create_session("claude", key="k", worktree=Worktree("/p", "b", "/r", "x"))
    await store.commit(Commit(session.id, [said("one"), said("two")]))
    header, log = await store.session(session.id), await log_of(store, session.id)
    await store.close()
    again = await opener()
    assert await again.session(session.id) == header
    assert await log_of(again, session.id) == log


async def test_a_closed_store_says_so(store: Store) -> None:
    session = await store.create_session("claude")
    await store.close()
    with pytest.raises(errors.StoreClosed):
        await store.create_session("claude")
    with pytest.raises(errors.StoreClosed):
        await store.session(session.id)
    await store.close()
