"""What accidents do to an agent's own history: cut off, deleted, one record torn."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

PARTS = ("", "-wal", "-shm")  # of a database


def truncated(path: str) -> None:
    """The last third is not there."""
    _settle(path)
    os.truncate(path, os.path.getsize(path) * 2 // 3)


def deleted(path: str) -> None:
    """Nothing is there."""
    for part in PARTS:
        if os.path.exists(path + part):
            os.unlink(path + part)


def torn(path: str) -> None:
    """One record in the middle lacks its second half."""
    if _is_database(path):
        with closing(sqlite3.connect(path)) as database:
            database.execute(
                "update part set data = substr(data, 1, length(data) / 2) where id ="
                " (select id from part order by id limit 1 offset (select count(*) / 2 from part))"
            )
            database.commit()
        return
    with open(path, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    middle = len(lines) // 2
    lines[middle] = lines[middle][: len(lines[middle]) // 2] + b"\n"
    with open(path, "wb") as file:
        file.write(b"".join(lines))


@contextmanager
def undone(path: str) -> Iterator[None]:
    """What is done to it is taken back at the end."""
    _settle(path)
    kept = f"{path}.kept"
    shutil.copy2(path, kept)
    try:
        yield
    finally:
        deleted(path)
        os.rename(kept, path)


def _settle(path: str) -> None:
    """All of a database in one file."""
    if os.path.exists(path) and _is_database(path):
        with closing(sqlite3.connect(path)) as database:
            database.execute("pragma wal_checkpoint(truncate)")


def _is_database(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(6) == b"SQLite"
