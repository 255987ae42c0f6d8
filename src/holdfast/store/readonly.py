"""Read from a store without opening it for writing; SQLite needs no event loop for that."""

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
MAKING_S = 5.0  # for how long an empty store may be one that is being made


def ask(home: Home, location: Location, question: Callable[[Sql], Awaitable[T]]) -> T:
    """The answer to a question, from one consistent state."""
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
    """A reading connection to a store that is there and that we understand."""
    require(home, location)
    db = _open_made(location)
    given_up = time.monotonic() + MAKING_S
    while db is None:
        time.sleep(0.02)
        hopeless = _has_mirrors(home) or time.monotonic() > given_up  # looked at first: mirrors follow tables
        db = _open_made(location)
        if db is None and hopeless:
            raise StoreUnreadable(f"{location.address} has no tables of Holdfast's")
    return db


def _open_made(location: Location) -> apsw.Connection | None:
    """None of one that is empty: somebody may make it just now, for its tables come in one transaction."""
    if not os.path.exists(location.address):  # an empty one is put away first
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
    """Say clearly what is missing, if anything is, rather than make it."""
    if location.kind != "sqlite" or os.path.exists(location.address):
        return
    if _has_mirrors(home):
        raise StoreUnreadable(f"{location.address} is gone; the mirrors in {home.sessions} are there")
    raise StoreMissing(f"there is no Holdfast home at {home.path}")


def _has_mirrors(home: Home) -> bool:
    return os.path.isdir(home.sessions) and any(n.endswith(".jsonl") for n in os.listdir(home.sessions))


# --- A store that is looked at again and again, at once when something was committed.

GLANCE_S = 0.01  # between looks at the version of a SQLite file, which cost next to nothing
LOOK_S = {"sqlite": 0.25, "postgres": 0.5}  # at the latest; a look at a server is dearer


class StoreWatcher:
    """One store, read from outside while others write."""

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
        """The answer to a question, from one consistent state."""
        path = self._location.address
        if self._location.kind != "sqlite" or not os.path.exists(path + "-wal"):
            self._close()  # without a WAL a reader takes the file for one that never changes
            return ask(self._home, self._location, question)
        if self._db is None or self._file != _identity(path):  # it was put aside and built anew
            self._close()
            self._file = _identity(path)
            self._db = open_sqlite(self._home, self._location)
        from holdfast.store.sqlite.read_transaction import read

        self._version = self._seen()
        return read(self._db, path, question, lenient=True)

    def wait(self) -> None:
        """Until something was committed since the last question, or for a moment."""
        until = time.monotonic() + LOOK_S[self._location.kind]
        if self._db is None:
            time.sleep(LOOK_S[self._location.kind])
            return
        while self._seen() == self._version and time.monotonic() < until:
            time.sleep(GLANCE_S)

    def _seen(self) -> object:
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
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
