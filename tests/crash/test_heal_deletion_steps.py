"""A crash between any two steps of a delete or a restore: afterwards the session is deleted, or it is not."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import pytest

from holdfast import errors
from holdfast.durable_io import Disk
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.store.backend import Operation
from holdfast.store.location import Location
from holdfast.store.mirror.files import MirrorFiles
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.store import Store
from tests.crash.heal_support import (
    RULES,
    Photo,
    healed_once,
    mirrors,
    opened,
    quarantined,
    quick,
    read,
    say,
    seen,
)
from tests.crash.support import scratch


class DyingDisk(Disk):
    """Does so many changes, then none any more."""

    def __init__(self, changes: int):
        self.left = changes

    def _change(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, "the machine has died")

    def open(self, path: str, flags: int) -> int:
        if flags & os.O_CREAT:
            self._change()
        return super().open(path, flags)

    def write(self, fd: int, data: bytes) -> None:
        if self.left == 0 and len(data) > 1:  # the crash may strike inside a write
            super().write(fd, data[: len(data) // 2])
        self._change()
        super().write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        self._change()
        super().truncate(fd, size)

    def link(self, old: str, new: str) -> None:
        self._change()
        super().link(old, new)

    def unlink(self, path: str) -> None:
        self._change()
        super().unlink(path)

    def rename(self, old: str, new: str) -> None:
        self._change()
        super().rename(old, new)

    def sync(self, fd: int) -> None:
        self._change()
        super().sync(fd)

    def sync_dir(self, path: str) -> None:
        self._change()
        super().sync_dir(path)


Deed = Callable[[Store, str], Awaitable[object]]


async def _delete(store: Store, session: str) -> object:
    return await store.delete(session, "me", "no more")


async def _restore(store: Store, session: str) -> object:
    return await store.restore(session, "me")


DEEDS: dict[str, tuple[Deed, list[Deed]]] = {
    "delete": (_delete, []),
    "restore": (_restore, [_delete]),
    "delete again": (_delete, [_delete, _restore]),
    "restore again": (_restore, [_delete, _restore, _delete]),
}


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with quick():
        yield


async def _prepared(home: Home, before: list[Deed]) -> str:
    async with opened(Location("sqlite", home.database), home) as store:
        session = (await store.create_session("claude", key="k")).id
        await store.commit(Commit(session, [say("one"), say("two")]))
        for deed in before:
            await deed(store, session)
    return session


@pytest.mark.parametrize("deed", DEEDS)
async def test_the_disk_dies_after_any_step(deed: str) -> None:
    """For every number of steps until all are done."""
    do, before = DEEDS[deed]
    states: list[str] = []
    with scratch() as folder:
        first = Home(os.path.join(folder, "first"))
        session = await _prepared(first, before)
        for steps in range(100):
            home = Home(os.path.join(folder, f"home{steps}"))
            shutil.copytree(first.path, home.path)
            disk = DyingDisk(steps)
            store = SqliteStore(home.database, home, RULES, MirrorFiles(home, disk))
            with suppress(errors.HoldfastError, OSError):
                await do(store, session)
            await store.close()
            states.append(await _one_of_two(home, session))
            if disk.left >= 0:
                break
        else:
            pytest.fail("it never came to its end")
    assert len(states) > 5
    assert set(states) == {"live", "deleted"}
    assert states[-1] == ("deleted" if do is _delete else "live")
    assert states == sorted(states, key=lambda state: state == states[-1]), "done, and then undone again"


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("when", ["before the commit", "after the commit"])
async def test_the_process_dies_around_the_commit(deed: str, when: str, home: Home) -> None:
    """The log has the change or not; files and tombstone follow it."""
    do, before = DEEDS[deed]
    session = await _prepared(home, before)
    disk = DyingDisk(1000)
    store = SqliteStore(home.database, home, RULES, MirrorFiles(home, disk))
    through = store.transact

    async def die(operation: Operation) -> object:
        if when == "after the commit":
            await through(operation)
        disk.left = 0
        raise errors.StoreClosed("killed")

    store.transact = die  # type: ignore[method-assign]
    with pytest.raises(errors.StoreClosed):
        await do(store, session)
    await store.close()

    state = await _one_of_two(home, session)
    # A tombstone is a promise: once it is there, the delete is finished.
    assert state == ("live" if do is _restore and when == "after the commit" else "deleted")


async def _one_of_two(home: Home, session: str) -> str:
    """Heal; the state that it came to, with log, tombstone and file all of one mind."""
    location = Location("sqlite", home.database)
    _, after = await healed_once(location, home)
    state: str = after[f"header {session}"].state
    deleted = state == "deleted"
    assert os.path.exists(home.tombstone(session)) == deleted
    assert os.path.exists(home.trashed(session)) == deleted
    assert os.path.exists(home.mirror(session)) != deleted
    assert after[f"listed {state}"] == [session]
    for name in quarantined(home):  # a torn line's file may be there, but no second name of a whole one
        assert os.stat(os.path.join(home.quarantine, name)).st_nlink == 1
    text = read(home.trashed(session) if deleted else home.mirror(session))
    if not deleted:
        assert text.count(b"\n") == len(after[session].lines)
    assert b'"two"' in text
    await _other_way(location, home, session, state, after)
    return state


async def _other_way(location: Location, home: Home, session: str, state: str, after: Photo) -> None:
    """And from there the other way is open."""
    async with opened(location, home) as store:
        await (_restore if state == "deleted" else _delete)(store, session)
        assert (await seen(store, session)).lines[:-1] == after[session].lines
    await healed_once(location, home)
    assert bool(mirrors(home)) == (state == "deleted")
