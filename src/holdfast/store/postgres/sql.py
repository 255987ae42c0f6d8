"""`Sql` on a psycopg connection."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from hashlib import md5
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from holdfast.store.statements import load, shared

if TYPE_CHECKING:
    from holdfast.model.commit import Draft
    from holdfast.store.postgres.connection import Connection
    from holdfast.store.sql import Row
    from holdfast.store.tables import Loaded

STATEMENTS = shared("%s") | load(os.path.join(os.path.dirname(__file__), "queries.sql"), "%s")

# The server counts, so that what is beyond the budget never leaves it. octet_length reads no body:
# the length stands beside it. Bytes are never fewer than characters, so the budget holds.
_WITHIN_BUDGET = """
select * from (
  select q.*, coalesce(sum(octet_length(q.body)) over (rows between unbounded preceding and 1 preceding), 0)
    as spent from ({}) q
) p where p.spent < %s
"""


class PostgresSql:
    """Statements on one connection, for one transaction."""

    def __init__(self, db: Connection):
        self.written = 0  # statements that may have changed something
        self._db = db
        self._place: int | None = None

    async def rows(self, name: str, /, *, budget: int | None = None, **given: Any) -> list[Row]:
        """All rows, or as many as the budget allows."""
        statement = STATEMENTS[name]
        values = statement.values(given)
        if budget is None:
            return await (await self._db.execute(statement.text, values)).fetchall()
        cursor = await self._db.execute(_WITHIN_BUDGET.format(statement.text), (*values, budget))
        return [row[:-1] for row in await cursor.fetchall()]

    async def dicts(self, name: str, /, **given: Any) -> list[dict[str, Any]]:
        """All rows by column name."""
        statement = STATEMENTS[name]
        async with self._db.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(statement.text, statement.values(given))
            return await cursor.fetchall()

    async def run(self, name: str, /, **given: Any) -> int:
        """Run a statement; the number of rows it changed."""
        statement = STATEMENTS[name]
        cursor = await self._db.execute(statement.text, statement.values(given))
        self.written += cursor.rowcount
        return cursor.rowcount

    async def many(self, name: str, rows: Iterable[Row]) -> None:
        """Run a statement for each row."""
        self.written += 1
        async with self._db.cursor() as cursor:
            await cursor.executemany(STATEMENTS[name].text, rows)

    async def reserve(self, count: int) -> int:
        """Places in the log of all sessions; under the writers' lock nobody else takes one."""
        if self._place is None:
            self._place = int((await self.rows("last_log"))[0][0])
        place = self._place
        self._place = place + count
        return place

    async def known_origins(self, n: int, head: int, origins: set[str]) -> set[str]:
        """Those of `origins` that the session has already."""
        digests = [md5(origin.encode(), usedforsecurity=False).hexdigest() for origin in origins]
        return origins & {origin for (origin,) in await self.rows("known_origins", n=n, digests=digests)}

    # Other hubs write too, so nothing is remembered from one transaction to the next.

    def note_origins(self, n: int, head: int, drafts: Sequence[Draft]) -> None:
        """Nothing to note: they are in the index."""

    def recall(self, session: str) -> Loaded | None:
        """Nothing is remembered."""
        return None

    def remember(self, session: str, loaded: Loaded | None) -> None:
        """Nothing is remembered."""

    def forget(self) -> None:
        """Nothing is remembered."""
