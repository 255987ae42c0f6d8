"""Is a SQLite file damaged, and how is it moved to quarantine?"""

from __future__ import annotations

import json
import os
from contextlib import suppress

import apsw

from holdfast import durable_io, errors, timestamps
from holdfast.home import Home
from holdfast.recovery.findings import Finding, signature
from holdfast.store.sqlite import column_check, migrations
from holdfast.store.sqlite.column_check import SMALL_TABLES
from holdfast.store.sqlite.connection import open_reader, open_writer, translated

SMALL = 64 * 1024 * 1024  # bytes; every start reads a file up to this size completely
FOLDER = "-database"  # ends the name of a folder in quarantine with a database
SUFFIXES = ("", "-wal", "-shm", "-journal")  # the next database would replay a remaining journal
TABLES = frozenset({"meta", "session", "log", "token", "task"})

REBUILD = "move it to quarantine and rebuild it from the mirrors"


def examine(path: str, home: Home, deep: bool) -> Finding | None:
    """The finding for a damaged database file, if it is. SchemaNewer if a newer Holdfast wrote it."""
    if os.path.isdir(path):
        raise errors.StoreUnreadable(f"{path} is a directory, not a database")
    exists, wal = os.path.lexists(path), _size(path + "-wal")
    if not (exists and _size(path)) and not wal and not has_mirrors(home):
        return None  # a first start, perhaps one that was cut short
    if not exists:
        return _finding("database_missing", path, "the database is missing; the mirrors have its sessions")
    if not _size(path):
        return _finding("database_empty", path, "the database has zero bytes")
    problem = _check(path, deep or _size(path) + wal <= SMALL)
    return None if problem is None else damaged(path, problem)


def damaged(path: str, problem: str) -> Finding:
    """The finding for an unreadable database."""
    why = f"the database cannot be read: {' '.join(problem.split())}"
    return _finding("database_damaged", path, why)


def is_damage(problem: errors.StoreUnreadable) -> bool:
    """Whether the content of the file is damaged, not just access to it."""
    return isinstance(problem.__cause__, (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError))


def _finding(code: str, path: str, why: str) -> Finding:
    return Finding(
        code=code,
        subject=os.path.basename(path),
        text=why,
        action=REBUILD,
        evidence={"bytes": _size(path)},
        signature=signature(path),
    )


def _check(path: str, whole: bool) -> str | None:
    """What is wrong with the file: all its pages (`whole`) or only its headers."""
    try:
        with translated(path):
            if _size(path + "-journal"):
                # A first start was cut short while it switched to WAL. Only a writer can roll that back.
                open_writer(path).close()
            db = open_reader(path)
            try:
                _refuse_foreign(db, path)
                version = migrations.check(db, path)
                if version == 0:
                    return "it has no tables of Holdfast"
                if whole and version == migrations.newest() and _shape(db) != _our_shape():
                    return "its tables differ from those of this version"
                if whole:
                    rows = db.execute("pragma integrity_check(3)").fetchall()
                    if rows != [("ok",)]:
                        return "; ".join(str(row[0]) for row in rows)
                # The small tables at every start: one bad value in them breaks every list.
                bad = column_check.bad_values(db) if whole else column_check.bad_values(db, SMALL_TABLES)
                if bad:
                    return "; ".join(map(str, bad))
                db.execute("select max(id) from log").fetchone()
                if db.execute("select value from meta where name = 'epoch'").fetchone() is None:
                    return "its feed has no epoch"
            finally:
                db.close()
    except (errors.SchemaNewer, NotOurs):
        raise
    except errors.StoreUnreadable as problem:
        return str(problem)
    return _too_short(path)


def _shape(db: apsw.Connection) -> dict[str, list[str]]:
    """The tables with their columns, and the indexes."""
    names = [name for (name,) in db.execute("select name from sqlite_schema where name not like 'sqlite_%'")]
    return {name: [row[1] for row in db.execute(f"pragma table_info('{name}')")] for name in sorted(names)}


def _our_shape() -> dict[str, list[str]]:
    db = migrations.in_memory()
    try:
        return _shape(db)
    finally:
        db.close()


class NotOurs(errors.StoreUnreadable):
    """The database belongs to another program and is not touched."""


def _refuse_foreign(db: apsw.Connection, path: str) -> None:
    """A sound database without any of our tables belongs to another program."""
    tables = {name for (name,) in db.execute("select name from sqlite_schema where type = 'table'")}
    if tables and tables.isdisjoint(TABLES):
        raise NotOurs(f"{path} is a database, but not one of Holdfast's", hint="choose another path")


def _too_short(path: str) -> str | None:
    """A file that was cut, so that pages at its end are missing."""
    if _size(path + "-wal"):
        return None  # the newest pages may be only in the WAL
    with open(path, "rb") as file:
        header = file.read(100)
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(header[28:32], "big")
    if _size(path) < page * pages:
        return f"it has {_size(path):,} of {page * pages:,} bytes"
    return None


def move_to_quarantine(path: str, home: Home, why: str) -> list[str]:
    """Move a database with its journals to quarantine, with a note. Returns the new paths."""
    quarantine, name = home.quarantine, f"{timestamps.now().replace(':', '')}{FOLDER}"
    parent = os.path.dirname(path)
    if os.stat(parent).st_dev != os.stat(quarantine).st_dev:
        quarantine = parent  # a move to another disk would copy a file that may be large
    present = [path + suffix for suffix in SUFFIXES if os.path.lexists(path + suffix)]
    if not present:
        return []
    folder = os.path.join(quarantine, name)
    durable_io.make_folder(folder)
    note = json.dumps({"from": path, "why": why, "at": timestamps.now()}, indent=1)
    durable_io.create(os.path.join(folder, "note.json"), [note.encode()])
    return durable_io.move_together(present, folder)


def unfinished(path: str, home: Home) -> list[str]:
    """Databases in quarantine whose records were not all salvaged yet."""
    databases = []
    for parent in dict.fromkeys((home.quarantine, os.path.dirname(path))):
        for name in sorted(os.listdir(parent)) if os.path.isdir(parent) else ():
            kept = os.path.join(parent, name, os.path.basename(path))
            if name.endswith(FOLDER) and os.path.isfile(kept) and not os.path.lexists(_finished(kept)):
                databases.append(kept)
    return databases


def finish(kept: str) -> None:
    """Record that a database in quarantine is salvaged completely."""
    with suppress(FileExistsError):
        durable_io.create(_finished(kept), [json.dumps({"at": timestamps.now()}).encode()])


def _finished(kept: str) -> str:
    return os.path.join(os.path.dirname(kept), "rebuilt.note.json")


def has_mirrors(home: Home) -> bool:
    """Whether there is any mirror to rebuild a database from."""
    for folder in (home.sessions, home.trash):
        if os.path.isdir(folder) and any(n.endswith(".jsonl") for n in os.listdir(folder)):
            return True
    return False


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
