"""A store that is looked at again and again, at once when something was committed."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from holdfast.cli.ask import answer, ask, open_sqlite

if TYPE_CHECKING:
    import apsw

    from holdfast.home import Home
    from holdfast.store.location import Location
    from holdfast.store.sql import Sql

T = TypeVar("T")

GLANCE_S = 0.01  # between looks at the version of a SQLite file, which cost next to nothing
LOOK_S = {"sqlite": 0.25, "postgres": 0.5}  # at the latest; a look at a server is dearer


class Window:
    """One store, read from outside while others write."""

    def __init__(self, home: Home, location: Location):
        self._home = home
        self._location = location
        self._db: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._version: object = None

    def __enter__(self) -> Window:
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
        self._version = self._seen()
        return answer(self._db, path, question)

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
