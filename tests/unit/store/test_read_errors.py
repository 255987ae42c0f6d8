"""A disk that fails under a reader: the error is reported as it is, and reads work again afterward."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from holdfast import errors
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.store import readonly, reads
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.sqlite import store as sqlite_store
from holdfast.store.store import Store
from tests.conftest import REGISTRY

EVENTS = 400  # enough pages that a fresh connection has most of them still to read


@asynccontextmanager
async def opened(home: Home) -> AsyncIterator[Store]:
    store = await open_store(Location("sqlite", home.database), home, REGISTRY.token_rules())
    try:
        yield store
    finally:
        await store.close()


async def fill(home: Home) -> str:
    async with opened(home) as store:
        session = await store.create_session("claude")
        events = [NewEvent("assistant", {"text": "x" * 2000}) for _ in range(EVENTS)]
        await store.commit(Commit(session.id, list(events)))
        return session.id


@contextmanager
def failing_disk(path: str) -> Iterator[None]:
    """Every open descriptor of a database refuses reads."""
    replaced = {}
    try:
        for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
            if (file := target(fd)) in (path, f"{path}-wal"):
                replaced[fd] = os.dup(fd)
                unreadable = os.open(file, os.O_WRONLY)  # the right size, but every read fails
                os.dup2(unreadable, fd)
                os.close(unreadable)
        assert replaced, "nobody has the database open"
        yield
    finally:
        for fd, saved in replaced.items():
            os.dup2(saved, fd)
            os.close(saved)


def target(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:
        return ""


async def test_the_hub_reports_a_read_error_as_such_and_recovers(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "READERS", 1)  # so that one connection makes both reads
    session = await fill(home)
    async with opened(home) as store:
        assert len(await store.events(session, 0, 1)) == 1  # the thread for long reads has its connection
        with failing_disk(home.database), pytest.raises(errors.DiskFull) as failed:
            await store.events(session, 0, EVENTS)
        assert "disk I/O error" in failed.value.message
        assert len(await store.events(session, 1, EVENTS)) == EVENTS


async def test_a_command_reports_the_same_error(home: Home) -> None:
    session = await fill(home)
    async with opened(home):  # so that there is a WAL, and the window keeps its connection
        with readonly.StoreWatcher(home, Location("sqlite", home.database)) as window:
            window.ask(lambda sql: reads.session(sql, session))
            with failing_disk(home.database), pytest.raises(errors.DiskFull) as failed:
                window.ask(lambda sql: reads.log(sql, session, 0, EVENTS))
            assert "disk I/O error" in failed.value.message
            assert len(window.ask(lambda sql: reads.log(sql, session, 1, EVENTS))) == EVENTS


async def test_a_refused_question_leaves_the_connection_usable(home: Home) -> None:
    session = await fill(home)
    async with opened(home) as store:
        with pytest.raises(errors.NotFound):
            await store.session("0" * 12)
        assert (await store.session(session)).id == session
