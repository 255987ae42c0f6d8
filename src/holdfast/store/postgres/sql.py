"""`Sql` on a psycopg connection."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from hashlib import md5
from typing import TYPE_CHECKING, Any

from holdfast.store.queries import load, shared

if TYPE_CHECKING:
    from psycopg import AsyncCursor

    from holdfast.model.commit import Draft
    from holdfast.store.postgres.connection import Connection
    from holdfast.store.rows import Loaded
    from holdfast.store.sql import Row

STATEMENTS = shared("%s") | load(os.path.join(os.path.dirname(__file__), "queries.sql"), "%s")

# The server counts, so it sends nothing beyond the budget. octet_length reads no body: its length is
# stored with it. There are never fewer bytes than characters, so the budget holds.
_WITHIN_BUDGET = """
select * from (
  select q.*, coalesce(sum(octet_length(q.body)) over (rows between unbounded preceding and 1 preceding), 0)
    as spent from ({}) q
) p where p.spent < %s
"""


class PostgresSql:
    """Statements on one connection, for one transaction.

    Its cache ends with it: other hubs write too, but not while this one holds the lock.
    """

    def __init__(self, db: Connection):
        self.written = 0  # grows with everything that changes the database
        self._db = db
        self._last_id: int | None = None
        self._later: dict[str, list[Row]] = {}
        self._loaded: dict[str, Loaded] = {}

    async def rows(self, name: str, /, *, budget: int | None = None, **parameters: Any) -> list[Row]:
        """All rows, or as many as the budget allows."""
        statement = STATEMENTS[name]
        values = statement.values(parameters)
        if budget is None:
            return await (await self._execute(statement.text, values)).fetchall()
        cursor = await self._execute(_WITHIN_BUDGET.format(statement.text), (*values, budget))
        return [row[:-1] for row in await cursor.fetchall()]

    async def dicts(self, name: str, /, **parameters: Any) -> list[dict[str, Any]]:
        """All rows by column name."""
        statement = STATEMENTS[name]
        cursor = await self._execute(statement.text, statement.values(parameters))
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]

    async def run(self, name: str, /, **parameters: Any) -> int:
        """Run a statement. Returns the number of changed rows."""
        statement = STATEMENTS[name]
        changed = (await self._execute(statement.text, statement.values(parameters))).rowcount
        self.written += changed
        return changed

    async def many(self, name: str, rows: Iterable[Row]) -> None:
        """Run a statement for each row, at the end of the transaction or before the next statement."""
        self.written += 1
        self._later.setdefault(name, []).extend(rows)

    async def reserve(self, count: int) -> int:
        """The last id in the log of all sessions; the next `count` ids belong to the caller."""
        if self._last_id is None:
            self._last_id = int((await self.rows("last_log"))[0][0])
        last_id = self._last_id
        self._last_id = last_id + count
        return last_id

    async def settle(self) -> None:
        """Run the delayed statements."""
        later, self._later = self._later, {}
        async with self._db.cursor() as cursor:
            for name, rows in later.items():
                await cursor.executemany(STATEMENTS[name].text, rows)

    async def _execute(self, text: str, values: Row) -> AsyncCursor[Row]:
        if self._later:
            await self.settle()
        return await self._db.execute(text, values)

    async def known_origins(self, n: int, head: int, origins: set[str]) -> set[str]:
        """Those of `origins` that the session already has."""
        digests = [md5(origin.encode(), usedforsecurity=False).hexdigest() for origin in origins]
        return origins & {origin for (origin,) in await self.rows("known_origins", n=n, digests=digests)}

    def note_origins(self, n: int, head: int, drafts: Sequence[Draft]) -> None:
        """Does nothing: the origins are in the index."""

    def recall(self, session: str) -> Loaded | None:
        """The session after an earlier commit of this transaction."""
        return self._loaded.get(session)

    def remember(self, session: str, loaded: Loaded | None) -> None:
        """Cache a session for the next commit."""
        if loaded is None:
            self._loaded.pop(session, None)
        else:
            self._loaded[session] = loaded

    def forget(self) -> None:
        """Drop all cached sessions."""
        self._loaded.clear()
