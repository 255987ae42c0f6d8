"""Schema versions: create the newest, migrate older ones after a backup, refuse newer ones."""

from __future__ import annotations

import os
from collections.abc import Sequence

import apsw

from holdfast import durable_io, errors, timestamps
from holdfast.store.sqlite.connection import APPLICATION

_SCHEMA = os.path.join(os.path.dirname(__file__), "schema.sql")

# Step i migrates version i+1 to version i+2; the schema file is always the newest version.
STEPS: Sequence[str] = (
    "alter table task add column waiting_for text; alter table task add column not_before text",
    "create table if not exists notification (id text primary key, node text not null, channel text not null,"
    " kind text not null, session text not null, task text, body text not null, created_at text not null,"
    " due_at text not null, status text not null, tries integer not null, problem text,"
    " ended_at text) without rowid;"
    " create index if not exists notification_due on notification (node, status, due_at)",
)


# Step i shows version i+1 as version i+2 to a read-only connection; nothing is written to the file.
VIEWS: Sequence[str] = (
    "create temp view task as select *, null as waiting_for, null as not_before from main.task",
    "create temp view notification as select '' as id, '' as node, '' as channel, '' as kind, '' as session,"
    " '' as task, '' as body, '' as created_at, '' as due_at, '' as status, 0 as tries, '' as problem,"
    " '' as ended_at where 1 = 0",
)


def show_as_newest(db: apsw.Connection, version: int) -> None:
    """Let a read connection see an older file as the newest version."""
    db.execute("pragma temp_store=memory")
    for view in VIEWS[version - 1 :]:
        db.execute(view)


def newest() -> int:
    """The version that this program writes."""
    return len(STEPS) + 1


def check(db: apsw.Connection, path: str) -> int:
    """The version of the file. Raises if it is newer than this program or not a Holdfast store."""
    (version,) = _row(db, "pragma user_version")
    (application,) = _row(db, "pragma application_id")  # second: the creator of the file sets both at once
    if version > newest():
        raise errors.SchemaNewer(f"{path} has schema {version}; this Holdfast knows up to {newest()}")
    if version and application != APPLICATION:
        raise errors.StoreUnreadable(f"{path} is a database, but not one of Holdfast's")
    return int(version)


def bring_up(db: apsw.Connection, path: str, epoch: str, backups: str) -> None:
    """Create the schema, or migrate an older one in one transaction after a backup."""
    version = check(db, path)
    if version == newest():
        return
    if version:
        _back_up(db, os.path.join(backups, f"state-v{version}-{timestamps.now().replace(':', '')}.db"))
    db.execute("begin immediate")
    try:
        version = check(db, path)  # another process may have been faster
        if version == 0:
            with open(_SCHEMA, encoding="utf-8") as file:
                db.execute(file.read())
            db.execute("insert into meta values ('epoch', ?)", (epoch,))
            version = newest()
        while version < newest():
            db.execute(STEPS[version - 1])
            version += 1
        db.execute(f"pragma application_id={APPLICATION}")
        db.execute(f"pragma user_version={version}")
        db.execute("commit")
    except BaseException:
        if db.in_transaction:  # a full disk has rolled it back already
            db.execute("rollback")
        raise


def _back_up(db: apsw.Connection, copy: str) -> None:
    """Write a complete copy to disk, readable only for us, or none."""
    durable_io.make_folder(os.path.dirname(copy))
    durable_io.create(copy, [])  # SQLite would create it readable for all; it accepts an empty file
    try:
        db.execute("vacuum into ?", (copy,))
        fd = durable_io.DISK.open(copy, os.O_RDONLY)
        try:
            durable_io.DISK.sync(fd)
        finally:
            durable_io.DISK.close(fd)
    except BaseException:
        durable_io.DISK.unlink(copy)
        raise


def in_memory() -> apsw.Connection:
    """An empty store in memory."""
    db = apsw.Connection(":memory:")
    bring_up(db, ":memory:", "", "")
    return db


def _row(db: apsw.Connection, query: str) -> tuple[int]:
    row = db.execute(query).fetchone()
    assert row is not None
    return row  # type: ignore[no-any-return]
