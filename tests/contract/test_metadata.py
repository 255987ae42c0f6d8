"""Metadata: patches on a version, never a replacement, and never an empty object in place of a bad one."""

from __future__ import annotations

import asyncio
from typing import Any

import apsw
import pytest

from holdfast import errors
from holdfast.model.commit import MAX_METADATA, Commit
from holdfast.model.json_codec import MAX_DEPTH
from holdfast.store.location import Location
from holdfast.store.store import Store
from tests.conftest import REGISTRY, Opener
from tests.support.store_model import OWNER, nothing_changes, said

GARBAGE = ["not JSON", '{"a": 1', "[1, 2]", "null", '"text"', "5", "", '{"a": 1}}']


async def tamper(location: Location, statement: str, *values: Any) -> None:
    """Change the database behind the store's back; `?` marks a value."""
    if location.kind == "sqlite":
        db = apsw.Connection(location.address)
        try:
            db.set_busy_timeout(10_000)
            db.execute(statement, values)
        finally:
            db.close()
        return

    def in_postgres() -> None:
        from tests.support.postgres_server import connect

        with connect(location.address) as connection:
            connection.execute(statement.replace("?", "%s").encode(), values)

    await asyncio.to_thread(in_postgres)


async def stored_metadata(location: Location, session: str) -> str:
    """The metadata column as it is in the database."""
    query = "select cast(metadata as blob) from session where id = ?"
    if location.kind == "sqlite":
        db = apsw.Connection(location.address, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            db.set_busy_timeout(10_000)
            ((stored,),) = db.execute(query, (session,)).fetchall()
            assert isinstance(stored, bytes)
            return stored.decode()
        finally:
            db.close()

    def in_postgres() -> str:
        from tests.support.postgres_server import connect

        with connect(location.address) as connection:
            ask = query.replace("?", "%s").replace("blob", "bytea")
            row = connection.execute(ask.encode(), (session,)).fetchone()
            assert row is not None
            return bytes(row[0]).decode()

    return await asyncio.to_thread(in_postgres)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


async def test_what_is_no_object_is_refused(store: Store) -> None:
    session = await store.create_session("claude", metadata={"kept": 1})
    bad: Any
    async with nothing_changes(store):
        for bad in (None, "text", ["a"], [], 5, 0.5, True, b"{}"):
            with pytest.raises(errors.MetadataInvalid) as refusal:
                await store.patch_metadata(session.id, bad, 1)
            assert refusal.value.code == "metadata_invalid"
            if bad is not None:  # None: not given
                with pytest.raises(errors.MetadataInvalid):
                    await store.create_session("claude", metadata=bad)


async def test_what_is_too_large_is_refused(store: Store) -> None:
    half = "x" * (MAX_METADATA // 2)
    session = await store.create_session("claude", metadata={"a": half})
    async with nothing_changes(store):
        with pytest.raises(errors.TooLarge):
            await store.patch_metadata(session.id, {"b": half + half}, 1)
        with pytest.raises(errors.TooLarge):  # too large only together with what is there
            await store.patch_metadata(session.id, {"b": half}, 1)
        with pytest.raises(errors.TooLarge):
            await store.create_session("claude", metadata={"a": half + half})
    assert (await store.patch_metadata(session.id, {"a": None, "b": half}, 1)).metadata == {"b": half}


async def test_what_is_too_deep_is_refused_and_what_is_taken_can_be_read(store: Store) -> None:
    session = await store.create_session("claude", metadata={"kept": 1})
    async with nothing_changes(store):
        for depth in (MAX_DEPTH + 1, 500, 900, 985, 1000, 3000):
            with pytest.raises(errors.UnstorableText):
                await store.patch_metadata(session.id, nested(depth), 1)
            with pytest.raises(errors.UnstorableText):
                await store.create_session("claude", metadata=nested(depth))
    patched = await store.patch_metadata(session.id, nested(MAX_DEPTH), 1)
    assert patched.metadata == {"kept": 1, **nested(MAX_DEPTH)}


async def test_values_that_are_no_json_are_refused(store: Store) -> None:
    session = await store.create_session("claude", metadata={"kept": 1})
    bad: Any
    async with nothing_changes(store):
        for bad in (float("nan"), float("inf"), object(), {1: 2}, (1, 2), b"x", {1}):
            with pytest.raises(errors.BadInput):
                await store.patch_metadata(session.id, {"a": bad}, 1)
            with pytest.raises(errors.BadInput):
                await store.create_session("claude", metadata={"a": bad})


async def test_a_wrong_version_answers_with_the_current_one(store: Store) -> None:
    session = await store.create_session("claude", metadata={"a": 1})
    assert (await store.patch_metadata(session.id, {"b": 2}, 1)).version == 2
    async with nothing_changes(store):
        for version in (1, 0, 3, -1, None, "2"):
            with pytest.raises(errors.VersionMismatch) as refusal:
                await store.patch_metadata(session.id, {"c": 3}, version)  # type: ignore[arg-type]
            assert refusal.value.code == "version_mismatch"
            assert refusal.value.facts == {"version": 2, "metadata": {"a": 1, "b": 2}}


async def test_a_patch_merges_and_null_removes_only_what_it_names(store: Store) -> None:
    session = await store.create_session("claude", metadata={"a": {"x": 1, "y": 2}, "b": [1, 2], "c": None})
    patched = await store.patch_metadata(session.id, {"a": {"x": None, "z": 3}, "b": [3]}, 1)
    assert patched.metadata == {"a": {"y": 2, "z": 3}, "b": [3], "c": None}
    assert patched.version == 2 and await store.session(session.id) == patched


async def test_a_patch_that_changes_nothing_keeps_the_version(store: Store) -> None:
    session = await store.create_session("claude", metadata={"a": 1})
    async with nothing_changes(store):
        assert await store.patch_metadata(session.id, {"a": 1, "gone": None}, 1) == session
        assert await store.patch_metadata(session.id, {}, 1) == session


async def test_values_that_python_holds_for_equal_are_still_changed(store: Store) -> None:
    for old, new in ((1, True), (True, 1), (1, 1.0), (0.0, False), (0.0, -0.0)):
        session = await store.create_session("claude", metadata={"a": [old]})
        patched = await store.patch_metadata(session.id, {"a": [new]}, 1)
        assert patched.metadata is not None and repr(patched.metadata["a"]) == repr([new])
        assert patched.version == 2


async def test_unknown_keys_survive_every_write(store: Store) -> None:
    unknown = {"futureField": {"deep": [1, "ü\u2028", None]}, "": 0}
    session = (await store.create_session("claude", metadata=unknown)).id
    await every_other_write(store, session)
    assert (await store.session(session)).metadata == unknown
    assert (await store.patch_metadata(session, {"mine": 1}, 1)).metadata == {**unknown, "mine": 1}


async def every_other_write(store: Store, session: str) -> None:
    await store.commit(Commit(session, [said("a", "1"), said("b")]))
    await store.see_token(session, "claude", "n")
    await store.revoke_token(session, "claude", "n", "why")
    await store.reinstate_token(session, "claude", "n", "why not")
    task = await store.enqueue(session, "hi")
    await store.claim(task.id, 0, OWNER, 60)
    await store.renew(task.id, 1, 90)
    await store.commit(Commit(session, [said("c")], task=task.id, generation=1, spool=7))
    await store.set_status(task.id, "succeeded", generation=1)
    await store.describe(session, title="t", key=session)
    await store.archive(session, "me", "completed")
    await store.unarchive(session, "me")
    await store.delete(session, "me", "tidy")
    await store.restore(session, "me")


async def test_stored_metadata_that_cannot_be_read_is_shown_and_kept(
    store: Store, location: Location
) -> None:
    other = (await store.create_session("claude", metadata={"b": 1}, title="T")).id
    for garbage in GARBAGE:
        session = (await store.create_session("claude", metadata={"a": 1}, title="T")).id
        await tamper(location, "update session set metadata = ? where id = ?", garbage, session)

        async def check(session: str = session, garbage: str = garbage) -> None:
            listed = {h.id: h for h in (await store.sessions(text="t", empty=True)).sessions}
            assert listed[other].metadata == {"b": 1}
            for header in (await store.session(session), listed[session]):
                assert header.metadata is None
                assert header.metadata_problem and "JSON" in header.metadata_problem
            assert await stored_metadata(location, session) == garbage

        await check()
        async with nothing_changes(store):
            with pytest.raises(errors.MetadataUnreadable) as refusal:
                await store.patch_metadata(session, {"a": 2}, 1)
            assert refusal.value.code == "metadata_unreadable"
        await store.archive(session, "me", "completed")
        await store.commit(Commit(session, [said()]))
        await check()
    await store.unarchive(session, "me")
    await every_other_write(store, session)
    await check()


async def test_stored_metadata_that_is_no_text_is_shown_and_kept(store: Store, location: Location) -> None:
    """PostgreSQL does not let such bytes in; a SQLite file can have them."""
    if location.kind != "sqlite":
        return
    session = (await store.create_session("claude")).id
    for garbage in (b'{"a":"\xff\xfe"}', b'{"a":"\xf0\x9f', b"\xff\xfe{}"):
        await tamper(location, "update session set metadata = cast(? as text)", garbage)
        for header in (await store.session(session), *(await store.sessions(empty=True)).sessions):
            assert header.metadata is None and header.metadata_problem
        with pytest.raises(errors.MetadataUnreadable):
            await store.patch_metadata(session, {"a": 2}, 1)
        await store.archive(session, "me", "completed")
        await store.commit(Commit(session, [said()]))
        db = apsw.Connection(location.address, flags=apsw.SQLITE_OPEN_READONLY)
        assert db.execute("select cast(metadata as blob) from session").fetchall() == [(garbage,)]
        db.close()


async def test_of_fifty_writers_each_lands_once_or_is_refused(store: Store, opener: Opener) -> None:
    stores = [store, await opener(), await opener()]
    session = (await store.create_session("claude", metadata={})).id

    async def write(i: int) -> bool:
        try:
            await stores[i % 3].patch_metadata(session, {f"w{i}": i}, 1 + i // 5)
        except errors.VersionMismatch as refusal:
            assert refusal.facts["version"] != 1 + i // 5
            assert f"w{i}" not in refusal.facts["metadata"]
            return False
        return True

    landed = await asyncio.gather(*[write(i) for i in range(50)])
    header = await store.session(session)
    assert header.metadata == {f"w{i}": i for i, did in enumerate(landed) if did}
    assert header.version == 1 + sum(landed) and any(landed)


async def test_fifty_writers_that_try_again_all_land(store: Store, opener: Opener) -> None:
    stores = [store, await opener()]
    session = (await store.create_session("claude", metadata={})).id

    async def write(i: int) -> None:
        version = 1
        while True:
            try:
                await stores[i % 2].patch_metadata(session, {f"w{i}": i}, version)
                return
            except errors.VersionMismatch as refusal:
                version = refusal.facts["version"]

    await asyncio.gather(*[write(i) for i in range(50)])
    header = await store.session(session)
    assert header.metadata == {f"w{i}": i for i in range(50)} and header.version == 51


def test_no_token_field_is_a_key_that_people_use() -> None:
    assert not REGISTRY.token_rules().fields & {"title", "note", "session", "id"}
