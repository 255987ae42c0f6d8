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

        from holdfast.store.postgres.asking import ask_once

        return asyncio.run(ask_once(location.address, question))
    db = open_sqlite(home, location)
    try:
        return answer(db, location.address, question)
    finally:
        db.close()


def answer(db: apsw.Connection, path: str, question: Callable[[Sql], Awaitable[T]]) -> T:
    """The same on a connection that is open."""
    from holdfast.store import steps
    from holdfast.store.sqlite.connection import translated
    from holdfast.store.sqlite.sql import SqliteSql

    with translated(path):
        db.execute("begin")
        try:
            return steps.run(question(SqliteSql(db)))  # type: ignore[arg-type]
        finally:
            if db.in_transaction:  # an error may have ended it
                db.execute("rollback")


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
            if migrations.check(db, location.address):
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
