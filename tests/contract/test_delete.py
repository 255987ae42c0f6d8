"""Delete: a tombstone first, then the trash, and back again as it was."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from holdfast import errors
from holdfast.durable_io import Disk
from holdfast.home import Home
from holdfast.model import changes as c
from holdfast.model.commit import Commit
from holdfast.store.location import Location
from holdfast.store.mirror.files import MirrorFiles
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.store import Store
from tests.conftest import REGISTRY, Opener
from tests.support.store_calls import claim_next
from tests.support.store_model import OWNER, WORKTREE, everything, log_of, nothing_changes, said


async def full_session(store: Store, key: str | None = "k") -> str:
    session = (await store.create_session("claude", key=key, worktree=WORKTREE, metadata={"a": 1})).id
    await store.commit(Commit(session, [said("one", "1"), said("two", "2")]))
    await store.see_token(session, "claude", "native-A", protocol="stream-json")
    await store.enqueue(session, "still waiting")
    return session


async def mirrors_level(store: Store) -> None:
    await store.with_mirrors(lambda files: None)


async def test_a_deleted_session_is_in_the_trash_with_its_tombstone(store: Store, home: Home) -> None:
    session = await full_session(store)
    await mirrors_level(store)
    assert os.path.exists(home.mirror(session))
    deleted = await store.delete(session, "me", "not needed")
    assert deleted.state == "deleted" and deleted.deletion is not None
    assert (deleted.deletion.by, deleted.deletion.reason) == ("me", "not needed")
    with open(home.tombstone(session), encoding="utf-8") as file:
        note = json.load(file)
    assert note["session"] == session and note["deletion"]["id"] == deleted.deletion.id
    await mirrors_level(store)
    assert not os.path.exists(home.mirror(session)) and os.path.exists(home.trashed(session))
    assert await store.session(session) == deleted
    assert [h.id for h in (await store.sessions()).sessions] == []
    assert await store.tasks() == [] and len(await store.tasks(session=session)) == 1
    async with nothing_changes(store):
        assert await store.delete(session, "me", "again") == deleted


async def test_a_deleted_session_takes_nothing_more(store: Store) -> None:
    session = await full_session(store)
    (task,) = await store.tasks(session=session)
    await store.delete(session, "me", "gone")
    async with nothing_changes(store):
        for answer in (
            store.commit(Commit(session, [said()])),
            store.archive(session, "me", "completed"),
            store.unarchive(session, "me"),
            store.describe(session, title="x"),
            store.patch_metadata(session, {"b": 2}, 1),
            store.see_token(session, "claude", "native-B"),
            store.revoke_token(session, "claude", "native-A", "why"),
            store.enqueue(session, "hi"),
            store.claim(task.id, 0, OWNER, 60),
            store.set_status(task.id, "cancelled"),
        ):
            with pytest.raises(errors.SessionDeleted):
                await answer
        assert await claim_next(store, OWNER, 60) is None
    assert (await store.create_session("claude", key="k")).key == "k"  # the key is free


@pytest.mark.parametrize("archived", [False, True])
async def test_a_restored_session_is_as_it_was(
    store: Store, opener: Opener, home: Home, archived: bool
) -> None:
    session = await full_session(store)
    if archived:
        await store.archive(session, "me", "completed")
    before, log = await everything(store), await log_of(store, session)
    deleted = await store.delete(session, "me", "by mistake")
    assert deleted.deletion is not None
    await store.close()
    store = await opener()
    restored = await store.restore(session, "me")
    after = await everything(store)
    (header,) = before["headers"]
    assert restored == msgspec.structs.replace(
        header, events=header.events + 2, updated_at=restored.updated_at, undone=deleted.deletion.id
    )
    assert (after["tokens"], after["tasks"]) == (before["tokens"], before["tasks"])
    assert (await log_of(store, session))[: len(log)] == log
    await mirrors_level(store)
    assert os.path.exists(home.mirror(session)) and not os.path.exists(home.trashed(session))
    assert not os.path.exists(home.tombstone(session))
    async with nothing_changes(store):
        assert await store.restore(session, "me") == restored
    assert (await store.delete(session, "me", "now really")).state == "deleted"
    assert (await store.restore(session, "me")).state == restored.state


async def test_a_running_session_is_not_deleted(store: Store, home: Home) -> None:
    session = await full_session(store)
    (task,) = await store.tasks(session=session)
    await store.claim(task.id, 0, OWNER, 60)
    for _ in range(2):
        async with nothing_changes(store):
            with pytest.raises(errors.SessionRunning) as refusal:
                await store.delete(session, "me", "gone")
            assert refusal.value.facts["task"] == task.id
        assert os.listdir(home.trash) == []
        await mirrors_level(store)
        assert os.path.exists(home.mirror(session))
        await store.set_status(task.id, "unreachable", generation=1)
        if (await store.task(task.id)).status == "unreachable":
            break
    await store.set_status(task.id, "interrupted", generation=1)
    assert (await store.delete(session, "me", "gone")).state == "deleted"


async def test_a_note_that_cannot_be_stored_deletes_nothing(store: Store, home: Home) -> None:
    session = await full_session(store)
    async with nothing_changes(store):
        for by, reason in (("\0", "r"), ("me", "\ud800"), ("me", "x" * 5000), ("me", None)):
            with pytest.raises(errors.BadInput):
                await store.delete(session, by, reason)  # type: ignore[arg-type]
    assert os.listdir(home.trash) == []


async def test_a_key_that_was_taken_meanwhile_stops_a_restore(store: Store, home: Home) -> None:
    session = await full_session(store)
    await store.delete(session, "me", "gone")
    await mirrors_level(store)
    usurper = (await store.create_session("codex", key="k")).id
    async with nothing_changes(store):
        with pytest.raises(errors.KeyTaken) as refusal:
            await store.restore(session, "me")
    assert refusal.value.facts["session"] == usurper
    assert os.path.exists(home.tombstone(session)) and os.path.exists(home.trashed(session))
    assert not os.path.exists(home.mirror(session))
    await store.archive(usurper, "me", "completed")
    assert (await store.restore(session, "me")).state == "live"


async def test_a_restore_of_another_deletion_undoes_nothing(store: Store) -> None:
    session = await full_session(store)
    await store.delete(session, "me", "gone")
    async with nothing_changes(store):
        done = await store.commit(Commit(session, [c.Restore(by="late", undoes="an older one")]))
    assert done.unchanged == 1


class FailingDisk(Disk):
    """Fails at the operation with that number, and at every one after it, while it is armed."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.failed = False

    def _tick(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.failed = True
                raise OSError(errno.ENOSPC, "no room")


def _ticking(name: str) -> Callable[..., Any]:
    def method(self: FailingDisk, *given: Any) -> Any:
        if name != "close":
            self._tick()
        return getattr(Disk, name)(self, *given)

    return method


for _name in ("open", "write", "truncate", "sync", "link", "unlink", "rename", "sync_dir"):
    setattr(FailingDisk, _name, _ticking(_name))


@asynccontextmanager
async def on_failing_disk(home: Home) -> AsyncIterator[tuple[SqliteStore, FailingDisk]]:
    disk = FailingDisk()
    store = SqliteStore(home.database, home, REGISTRY.token_rules(), MirrorFiles(home, disk))
    try:
        yield store, disk
    finally:
        disk.left = None
        await store.close()


async def test_wherever_a_delete_fails_nothing_is_deleted_without_a_tombstone(
    location: Location, home: Home
) -> None:
    """The mirrors of both stores are the same files; SQLite's are the ones tried here."""
    if location.kind != "sqlite":
        return
    async with on_failing_disk(home) as (store, disk):
        failures = 0
        for operations in range(40):
            session = await full_session(store, key=None)
            log = await log_of(store, session)
            await mirrors_level(store)
            disk.left, disk.failed = operations, False
            try:
                await store.delete(session, "me", "gone")
            except (errors.DiskFull, OSError):
                failures += 1
            finally:
                disk.left = None
            header = await store.session(session)
            if header.state == "deleted":
                assert os.path.exists(home.tombstone(session)), operations
            else:
                assert await log_of(store, session) == log
                await store.commit(Commit(session, [said("still here")]))
            await store.delete(session, "me", "now with room")  # the disk has room again
            assert (await store.session(session)).state == "deleted"
            assert os.path.exists(home.tombstone(session))
            assert (await store.restore(session, "me")).events >= len(log)
            await mirrors_level(store)
            assert os.path.exists(home.mirror(session)), operations
            if not disk.failed:
                break
        assert failures >= 8 and not disk.failed
