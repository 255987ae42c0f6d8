"""A SQLite file that may be damaged: is it sound, and how to put it aside."""

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

SMALL = 64 * 1024 * 1024  # bytes; a file up to this size is read whole at every start
FOLDER = "-database"  # the end of the name of a folder in quarantine that holds one
BESIDE = ("", "-wal", "-shm", "-journal")  # a journal left behind would be played into the next database
TABLES = frozenset({"meta", "session", "log", "token", "task"})

ASIDE = "put it into quarantine and rebuild it from the mirrors"


def examine(path: str, home: Home, deep: bool) -> Finding | None:
    """What is wrong with the database file, if anything; SchemaNewer if a newer Holdfast wrote it."""
    if os.path.isdir(path):
        raise errors.StoreUnreadable(f"{path} is a directory, not a database")
    there, wal = os.path.lexists(path), _size(path + "-wal")
    if not (there and _size(path)) and not wal and not has_mirrors(home):
        return None  # a first start, maybe one that was cut short
    if not there:
        return _finding("database_missing", path, "the database is gone; its sessions are in their mirrors")
    if not _size(path):
        return _finding("database_empty", path, "the database has zero bytes")
    problem = _read_through(path, deep or _size(path) + wal <= SMALL)
    return None if problem is None else damaged(path, problem)


def damaged(path: str, problem: str) -> Finding:
    """The finding of a database that cannot be read, for that reason."""
    why = f"the database cannot be read: {' '.join(problem.split())}"
    return _finding("database_damaged", path, why)


def is_damage(problem: errors.StoreUnreadable) -> bool:
    """Whether what could not be read was the file's content, not the way to it."""
    return isinstance(problem.__cause__, (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError))


def _finding(code: str, path: str, why: str) -> Finding:
    return Finding(
        code=code,
        subject=os.path.basename(path),
        text=why,
        action=ASIDE,
        evidence={"bytes": _size(path)},
        signature=signature(path),
    )


def _read_through(path: str, whole: bool) -> str | None:
    """What SQLite says against the file: of all its pages, or of its headers only."""
    try:
        with translated(path):
            if _size(path + "-journal"):
                # A first start was cut short while it chose WAL; only a writer may take that back.
                open_writer(path).close()
            db = open_reader(path)
            try:
                _refuse_foreign(db, path)
                version = migrations.check(db, path)
                if version == 0:
                    return "it has no tables of Holdfast's"
                if whole and version == migrations.newest() and _shape(db) != _our_shape():
                    return "its tables are not what this version makes"
                if whole:
                    rows = db.execute("pragma integrity_check(3)").fetchall()
                    if rows != [("ok",)]:
                        return "; ".join(str(row[0]) for row in rows)
                # The small tables at every start: one bad value in them is met by every list.
                found = column_check.bad_values(db) if whole else column_check.bad_values(db, SMALL_TABLES)
                if found:
                    return "; ".join(map(str, found))
                db.execute("select max(id) from log").fetchone()
                if db.execute("select value from meta where name = 'epoch'").fetchone() is None:
                    return "its feed has no name"
            finally:
                db.close()
    except (errors.SchemaNewer, NotOurs):
        raise
    except errors.StoreUnreadable as problem:
        return str(problem)
    return _too_short(path)


def _shape(db: apsw.Connection) -> dict[str, list[str]]:
    """Tables with their columns, and indexes: what statements name."""
    names = [name for (name,) in db.execute("select name from sqlite_schema where name not like 'sqlite_%'")]
    return {name: [row[1] for row in db.execute(f"pragma table_info('{name}')")] for name in sorted(names)}


def _our_shape() -> dict[str, list[str]]:
    db = migrations.in_memory()
    try:
        return _shape(db)
    finally:
        db.close()


class NotOurs(errors.StoreUnreadable):
    """That database belongs to another program; it is left alone."""


def _refuse_foreign(db: apsw.Connection, path: str) -> None:
    """A sound database without any of our tables is somebody's, not a damaged one of ours."""
    tables = {name for (name,) in db.execute("select name from sqlite_schema where type = 'table'")}
    if tables and tables.isdisjoint(TABLES):
        raise NotOurs(f"{path} is a database, but not one of Holdfast's", hint="choose another path")


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


def put_aside(path: str, home: Home, why: str) -> list[str]:
    """Move a database and what belongs to it into quarantine, with a note; where it is now."""
    quarantine, name = home.quarantine, f"{timestamps.now().replace(':', '')}{FOLDER}"
    beside = os.path.dirname(path)
    if os.stat(beside).st_dev != os.stat(quarantine).st_dev:
        quarantine = beside  # files do not move between disks; and it may be large
    present = [path + ending for ending in BESIDE if os.path.lexists(path + ending)]
    if not present:
        return []
    folder = os.path.join(quarantine, name)
    durable_io.make_folder(folder)
    note = json.dumps({"from": path, "why": why, "at": timestamps.now()}, indent=1)
    durable_io.create(os.path.join(folder, "note.json"), [note.encode()])
    return durable_io.move_together(present, folder)


def unfinished(path: str, home: Home) -> list[str]:
    """Databases that were put aside, and whose records have not all been asked for yet."""
    found = []
    for parent in dict.fromkeys((home.quarantine, os.path.dirname(path))):
        for name in sorted(os.listdir(parent)) if os.path.isdir(parent) else ():
            kept = os.path.join(parent, name, os.path.basename(path))
            if name.endswith(FOLDER) and os.path.isfile(kept) and not os.path.lexists(_finished(kept)):
                found.append(kept)
    return found


def finish(kept: str) -> None:
    """Note that a database that was put aside has nothing more to give."""
    with suppress(FileExistsError):
        durable_io.create(_finished(kept), [json.dumps({"at": timestamps.now()}).encode()])


def _finished(kept: str) -> str:
    return os.path.join(os.path.dirname(kept), "rebuilt.note.json")


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
