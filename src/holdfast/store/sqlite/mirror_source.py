"""How the mirror thread reads a SQLite store."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from holdfast.store import sync_await
from holdfast.store.mirror.writer import MirrorSeal, MirrorWriter, put_seals
from holdfast.store.sqlite.connection import open_reader, translated
from holdfast.store.sqlite.sql import SqliteSql
from holdfast.store.sqlite.writer import SqliteWriter


class SqliteMirrorSource:
    """A read connection of its own. It mirrors what this process commits."""

    poll_s: float | None = None

    def __init__(self, path: str, writer: SqliteWriter):
        self._path = path
        self._writer = writer
        self._db: apsw.Connection | None = None

    def catch_up(self, mirrors: MirrorWriter) -> None:
        """Let `mirrors` read the log and append what is missing."""
        try:
            with translated(self._path):
                self._db = self._db or open_reader(self._path)
                sync_await.run(mirrors.catch_up(SqliteSql(self._db)))
        except BaseException:
            self.close()  # the next try opens a new connection
            raise

    def save_seals(self, seals: Sequence[MirrorSeal]) -> None:
        """Record the seals in the database."""
        self._writer.submit_now(lambda sql: put_seals(sql, seals))

    def is_gone(self) -> bool:
        """Never: the file can always be read again."""
        return False

    def close(self) -> None:
        """Close the connection."""
        db, self._db = self._db, None
        if db is not None:
            db.close(True)
