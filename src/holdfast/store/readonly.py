"""Reads a store without opening it for writing. SQLite needs no event loop for that."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import StoreMissing, StoreUnreadable

if TYPE_CHECKING:
    import apsw

    from holdfast.home import Home
    from holdfast.store.location import Location
    from holdfast.store.sql import Sql

T = TypeVar("T")
CREATING_S = 5.0  # how long to wait for a process that creates the store


def ask(home: Home, location: Location, question: Callable[[Sql], Awaitable[T]]) -> T:
    """Answer a question from one consistent state."""
    if location.kind == "postgres":
        import asyncio

        from holdfast.store.postgres.readonly import ask_once

        return asyncio.run(ask_once(location.address, question))
    from holdfast.store.sqlite.read_transaction import read

    db = open_sqlite(home, location)
    try:
        return read(db, location.address, question, lenient=True)
    finally:
        db.close()


def open_sqlite(home: Home, location: Location) -> apsw.Connection:
    """A read connection to an existing store of a known version."""
    require(home, location)
    db = _open_created(location)
    deadline = time.monotonic() + CREATING_S
    while db is None:
        time.sleep(0.02)
        give_up = (
            _has_mirrors(home) or time.monotonic() > deadline
        )  # before the open: mirrors come after tables
        db = _open_created(location)
        if db is None and give_up:
            raise StoreUnreadable(f"{location.address} has no tables of Holdfast's")
    return db


def _open_created(location: Location) -> apsw.Connection | None:
    """None if the store is empty: a process may be creating its tables, all in one transaction."""
    if not os.path.exists(location.address):  # recovery moves an empty one away first
        return None
    from holdfast.store.sqlite import migrations
    from holdfast.store.sqlite.connection import open_reader, translated

    with translated(location.address):
        db = open_reader(location.address)
        try:
            if version := migrations.check(db, location.address):
                migrations.show_as_newest(db, version)
                return db
            if db.execute("select 1 from sqlite_schema limit 1").get is not None:
                raise StoreUnreadable(f"{location.address} has no tables of Holdfast's")
        except BaseException:
            db.close()
            raise
    db.close()
    return None


def require(home: Home, location: Location) -> None:
    """Raise an error if the store is missing. Creates nothing."""
    if location.kind != "sqlite" or os.path.exists(location.address):
        return
    if _has_mirrors(home):
        raise StoreUnreadable(f"{location.address} is missing; the mirrors in {home.sessions} are there")
    raise StoreMissing(f"there is no Holdfast home at {home.path}")


def _has_mirrors(home: Home) -> bool:
    return os.path.isdir(home.sessions) and any(n.endswith(".jsonl") for n in os.listdir(home.sessions))


# --- reading again after each commit

VERSION_S = 0.01  # between checks of the version of a SQLite file, which are cheap
POLL_S = {"sqlite": 0.25, "postgres": 0.5}  # longest wait; a query to a server costs more


class StoreWatcher:
    """Reads one store again and again while other processes write."""

    def __init__(self, home: Home, location: Location):
        self._home = home
        self._location = location
        self._db: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._version: object = None

    def __enter__(self) -> StoreWatcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def ask(self, question: Callable[[Sql], Awaitable[T]]) -> T:
        """Answer a question from one consistent state."""
        path = self._location.address
        if self._location.kind != "sqlite" or not os.path.exists(path + "-wal"):
            self._close()  # without a WAL a reader assumes that the file never changes
            return ask(self._home, self._location, question)
        if self._db is None or self._file != _identity(path):  # it was moved to quarantine and rebuilt
            self._close()
            self._file = _identity(path)
            self._db = open_sqlite(self._home, self._location)
        from holdfast.store.sqlite.read_transaction import read

        self._version = self._data_version()
        return read(self._db, path, question, lenient=True)

    def wait(self) -> None:
        """Wait for a commit since the last question, but not long."""
        until = time.monotonic() + POLL_S[self._location.kind]
        if self._db is None:
            time.sleep(POLL_S[self._location.kind])
            return
        while self._data_version() == self._version and time.monotonic() < until:
            time.sleep(VERSION_S)

    def _data_version(self) -> object:
        from holdfast.store.sqlite.connection import translated

        assert self._db is not None
        with translated(self._location.address):
            return self._db.execute("pragma data_version").fetchone()

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
