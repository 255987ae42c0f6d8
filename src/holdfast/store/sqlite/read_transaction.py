"""One read transaction on an open SQLite connection; the hub and the commands share it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import apsw

from holdfast.store import sync_await
from holdfast.store.sql import Sql
from holdfast.store.sqlite.connection import translated
from holdfast.store.sqlite.sql import SqliteSql

T = TypeVar("T")


def read(
    db: apsw.Connection, path: str, question: Callable[[Sql], Awaitable[T]], *, lenient: bool = False
) -> T:
    """Answer a question from one consistent state. Errors are those of SQLite, translated.

    `lenient`: every statement shows text that is not UTF-8, not only those for display.
    """
    with translated(path):
        db.execute("begin")
        try:
            result: T = sync_await.run(question(SqliteSql(db, lenient=lenient)))  # type: ignore[arg-type]
        except BaseException:
            # SQLite ends the transaction itself after an I/O error. A second error here would hide the first.
            with suppress(apsw.Error):
                if db.in_transaction:
                    db.execute("rollback")
            raise
        db.execute("commit")
        return result
