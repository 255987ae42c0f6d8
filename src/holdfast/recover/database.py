"""A SQLite file that may be damaged: is it sound, and how to put it aside."""

from __future__ import annotations

import os

from holdfast import clock, errors, fsio
from holdfast.home import Home
from holdfast.recover.finding import Finding
from holdfast.store.sqlite import migrations
from holdfast.store.sqlite.connection import open_reader, translated

SMALL = 64 * 1024 * 1024  # bytes; a file up to this size is read whole at every start
BESIDE = ("", "-wal", "-shm")

ASIDE = "put it into quarantine and rebuild it from the mirrors"


def examine(path: str, home: Home, deep: bool) -> Finding | None:
    """What is wrong with the database file, if anything; SchemaNewer if a newer Holdfast wrote it."""
    code, why = "", ""
    if not os.path.lexists(path):
        if not has_mirrors(home):
            return None
        code, why = "database_missing", "the database is gone; its sessions are in their mirrors"
    elif os.path.isdir(path):
        raise errors.StoreUnreadable(f"{path} is a directory, not a database")
    elif os.path.getsize(path) == 0 and not _size(path + "-wal"):
        if not has_mirrors(home):
            return None  # a first start that was cut short
        code, why = "database_empty", "the database has zero bytes"
    else:
        problem = _read_through(path, deep or _size(path) + _size(path + "-wal") <= SMALL)
        if problem is None:
            return None
        code, why = "database_damaged", f"the database cannot be read: {' '.join(problem.split())}"
    return Finding(
        code=code,
        subject=os.path.basename(path),
        text=why,
        action=ASIDE,
        evidence={"bytes": _size(path)},
    )


def _read_through(path: str, whole: bool) -> str | None:
    """What SQLite says against the file: of all its pages, or of its headers only."""
    try:
        with translated(path):
            db = open_reader(path)
            try:
                if migrations.check(db, path) == 0:
                    return "it has no tables of Holdfast's"
                if whole:
                    rows = db.execute("pragma integrity_check(3)").fetchall()
                    if rows != [("ok",)]:
                        return "; ".join(str(row[0]) for row in rows)
                for table in ("meta", "session", "token", "task"):
                    db.execute(f"select count(*) from {table}").fetchone()
                db.execute("select max(id) from log").fetchone()
            finally:
                db.close()
    except errors.SchemaNewer:
        raise
    except errors.StoreUnreadable as problem:
        return str(problem)
    return _too_short(path)


def _too_short(path: str) -> str | None:
    """A file cut behind pages that nobody has asked for yet."""
    if _size(path + "-wal"):
        return None  # the newest pages may be only there
    with open(path, "rb") as file:
        header = file.read(100)
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(header[28:32], "big")
    if _size(path) < page * pages:
        return f"it has {_size(path):,} of {page * pages:,} bytes"
    return None


def put_aside(path: str, home: Home) -> list[str]:
    """Move a database and what belongs to it into quarantine; where it is now."""
    folder = os.path.join(home.quarantine, f"{clock.now().replace(':', '')}-database")
    kept = []
    for ending in BESIDE:
        if os.path.lexists(path + ending):
            fsio.make_folder(folder)
            target = os.path.join(folder, os.path.basename(path) + ending)
            fsio.move(path + ending, target)
            kept.append(target)
    return kept


def has_mirrors(home: Home) -> bool:
    """Whether there is any mirror to rebuild from."""
    for folder in (home.sessions, home.trash):
        if os.path.isdir(folder) and any(n.endswith(".jsonl") for n in os.listdir(folder)):
            return True
    return False


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
