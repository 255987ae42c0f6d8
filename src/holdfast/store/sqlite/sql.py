"""`Sql` on an apsw connection."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import apsw

from holdfast.store.queries import shared

if TYPE_CHECKING:
    from holdfast.model.commit import Draft
    from holdfast.store.rows import Loaded
    from holdfast.store.sql import Row
    from holdfast.store.sqlite.write_cache import WriteCache

STATEMENTS = shared("?")

# Statements that show many rows to people: text that is not UTF-8 in one row must not hide the others.
# Without those that decide how an agent runs (`task`, `tokens`, `turns`) and the mirrored one (`log`).
FOR_DISPLAY = frozenset(
    {"session", "sessions", "events", "tasks", "latest_tasks", "interrupted_tasks", "asked"}
    | {"session_counts", "task_counts", "task_days", "last_task", "ids_like", "task_ids_like"}
)

AS_BYTES = "case typeof({0}) when 'text' then cast({0} as blob) else {0} end"

_columns: dict[str, tuple[str, ...]] = {}  # by statement; the same at every run

log = logging.getLogger(__name__)


class SqliteSql:
    """Statements on one connection, answered without suspending.

    `lenient`: every statement shows text that is not UTF-8 with U+FFFD in place of the bad bytes; else only
    those for display do, and the others fail with UnicodeDecodeError. The writer (it has a cache) is strict.
    """

    def __init__(self, db: apsw.Connection, cache: WriteCache | None = None, lenient: bool = False):
        self._db = db
        self._cache = cache
        self._lenient = lenient
        self._later: dict[str, list[Row]] = {}

    async def rows(self, name: str, /, *, budget: int | None = None, **parameters: Any) -> list[Row]:
        """All rows, or as many as the budget allows."""
        cursor = self._execute(name, parameters)
        try:
            return cursor.fetchall() if budget is None else _within(budget, cursor)
        except UnicodeDecodeError as problem:
            rows = iter(self._rows_with_bad_text(name, parameters, problem))
            return list(rows) if budget is None else _within(budget, rows)

    async def dicts(self, name: str, /, **parameters: Any) -> list[dict[str, Any]]:
        """All rows by column name."""
        cursor = self._execute(name, parameters)
        names = _columns.get(name)
        if names is None:
            try:
                names = _columns[name] = tuple(column[0] for column in cursor.get_description())
            except apsw.ExecutionCompleteError:
                return []
        try:
            return [dict(zip(names, row, strict=True)) for row in cursor]
        except UnicodeDecodeError as problem:
            rows = self._rows_with_bad_text(name, parameters, problem)
            return [dict(zip(names, row, strict=True)) for row in rows]

    def _rows_with_bad_text(
        self, name: str, parameters: dict[str, Any], problem: UnicodeDecodeError
    ) -> list[Row]:
        """The rows again, with text decoded here. Raises the problem if that is not allowed."""
        if self._cache is not None or not (self._lenient or name in FOR_DISPLAY):
            raise problem
        log.warning("the database is damaged: text is not UTF-8 in the answer to %r: %s", name, problem)
        statement = STATEMENTS[name]
        values = statement.values(parameters)
        names = [column[0] for column in self._db.execute(statement.text, values).get_description()]
        columns = ", ".join(f"""typeof("{one}"), {AS_BYTES.format(f'"{one}"')}""" for one in names)
        text = f"select {columns} from ({statement.text})"
        return [_decoded(row) for row in self._db.execute(text, values)]

    async def run(self, name: str, /, **parameters: Any) -> int:
        """Run a statement. Returns the number of changed rows."""
        self._execute(name, parameters)
        return self._db.changes()

    async def many(self, name: str, rows: Iterable[Row]) -> None:
        """Run a statement for each row, at the end of the transaction or before the next read."""
        self._later.setdefault(name, []).extend(rows)

    async def reserve(self, count: int) -> int:
        """The last id in the log of all sessions; the next `count` ids belong to the caller."""
        assert self._cache is not None, "only the writer adds to the log"
        if self._cache.last_id is None:
            self._cache.last_id = (await self.rows("last_log"))[0][0]
        last_id = self._cache.last_id
        self._cache.last_id = last_id + count
        return last_id

    def settle(self) -> None:
        """Run the delayed statements."""
        later, self._later = self._later, {}
        for name, rows in later.items():
            self._db.executemany(STATEMENTS[name].text, rows)

    def _execute(self, name: str, parameters: dict[str, Any]) -> apsw.Cursor:
        if self._later:
            self.settle()
        statement = STATEMENTS[name]
        return self._db.execute(statement.text, statement.values(parameters))

    async def known_origins(self, n: int, head: int, origins: set[str]) -> set[str]:
        """Those of `origins` that the session already has."""
        assert self._cache is not None, "only the writer asks this"
        if self._later and not self._cache.knows(n, head):
            self.settle()
        return self._cache.known(self._db, n, head, origins)

    def note_origins(self, n: int, head: int, drafts: Sequence[Draft]) -> None:
        """These drafts were added after record `head`."""
        if self._cache is not None:
            self._cache.note(n, head, drafts)

    def recall(self, session: str) -> Loaded | None:
        """The cached session."""
        return self._cache.loaded.get(session) if self._cache else None

    def remember(self, session: str, loaded: Loaded | None) -> None:
        """Cache a session for the next commit."""
        if self._cache is None:
            return
        if loaded is None:
            self._cache.loaded.pop(session, None)
        else:
            self._cache.loaded[session] = loaded

    def forget(self) -> None:
        """Drop all cached sessions."""
        if self._cache is not None:
            self._cache.loaded.clear()


def _within(budget: int, rows: Iterable[Row]) -> list[Row]:
    page = []
    for row in rows:
        page.append(row)
        budget -= len(row[-1])
        if budget <= 0:
            break
    return page


def _decoded(row: Row) -> Row:
    """Pairs of type and value as values."""
    pairs = zip(row[::2], row[1::2], strict=True)
    return tuple(value.decode(errors="replace") if kind == "text" else value for kind, value in pairs)
