"""`Sql` on an apsw connection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import apsw

from holdfast.store.queries import shared

if TYPE_CHECKING:
    from holdfast.model.commit import Draft
    from holdfast.store.rows import Loaded
    from holdfast.store.sql import Row
    from holdfast.store.sqlite.write_cache import Memory

STATEMENTS = shared("?")

_columns: dict[str, tuple[str, ...]] = {}  # by statement; the same at every run


class SqliteSql:
    """Statements on one connection; answers on the spot."""

    def __init__(self, db: apsw.Connection, memory: Memory | None = None):
        self._db = db
        self._memory = memory
        self._later: dict[str, list[Row]] = {}

    async def rows(self, name: str, /, *, budget: int | None = None, **given: Any) -> list[Row]:
        """All rows, or as many as the budget allows."""
        cursor = self._execute(name, given)
        if budget is None:
            return cursor.fetchall()
        rows = []
        for row in cursor:
            rows.append(row)
            budget -= len(row[-1])
            if budget <= 0:
                break
        return rows

    async def dicts(self, name: str, /, **given: Any) -> list[dict[str, Any]]:
        """All rows by column name."""
        cursor = self._execute(name, given)
        names = _columns.get(name)
        if names is None:
            try:
                names = _columns[name] = tuple(column[0] for column in cursor.get_description())
            except apsw.ExecutionCompleteError:
                return []
        return [dict(zip(names, row, strict=True)) for row in cursor]

    async def run(self, name: str, /, **given: Any) -> int:
        """Run a statement; the number of rows it changed."""
        self._execute(name, given)
        return self._db.changes()

    async def many(self, name: str, rows: Iterable[Row]) -> None:
        """Run a statement for each row, at the end of the transaction or before the next read."""
        self._later.setdefault(name, []).extend(rows)

    async def reserve(self, count: int) -> int:
        """Places in the log of all sessions."""
        assert self._memory is not None, "only the writer adds to the log"
        if self._memory.place is None:
            self._memory.place = (await self.rows("last_log"))[0][0]
        place = self._memory.place
        self._memory.place = place + count
        return place

    def settle(self) -> None:
        """Run what was put off."""
        later, self._later = self._later, {}
        for name, rows in later.items():
            self._db.executemany(STATEMENTS[name].text, rows)

    def _execute(self, name: str, given: dict[str, Any]) -> apsw.Cursor:
        if self._later:
            self.settle()
        statement = STATEMENTS[name]
        return self._db.execute(statement.text, statement.values(given))

    async def known_origins(self, n: int, head: int, origins: set[str]) -> set[str]:
        """Those of `origins` that the session has already."""
        assert self._memory is not None, "only the writer asks this"
        if self._later and not self._memory.knows(n, head):
            self.settle()
        return self._memory.known(self._db, n, head, origins)

    def note_origins(self, n: int, head: int, drafts: Sequence[Draft]) -> None:
        """These were just added after record `head`."""
        if self._memory is not None:
            self._memory.note(n, head, drafts)

    def recall(self, session: str) -> Loaded | None:
        """The session as the writer left it."""
        return self._memory.loaded.get(session) if self._memory else None

    def remember(self, session: str, loaded: Loaded | None) -> None:
        """Keep a session for the next commit."""
        if self._memory is None:
            return
        if loaded is None:
            self._memory.loaded.pop(session, None)
        else:
            self._memory.loaded[session] = loaded

    def forget(self) -> None:
        """Keep no session."""
        if self._memory is not None:
            self._memory.loaded.clear()
