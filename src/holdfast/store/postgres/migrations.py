"""Schema versions: create the newest, migrate older ones after a backup, refuse newer ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime

from holdfast import errors
from holdfast.store.postgres.connection import Address, Connection, one

_SCHEMA = os.path.join(os.path.dirname(__file__), "schema.sql")

# Step i migrates version i+1 to version i+2; the schema file is always the newest version.
STEPS: Sequence[str] = (
    "alter table task add column waiting_for text; alter table task add column not_before text",
    "create table if not exists notification (id text primary key, node text not null, channel text not null,"
    " kind text not null, session text not null, task text, body text not null, created_at text not null,"
    " due_at text not null, status text not null, tries bigint not null, problem text,"
    " ended_at text);"
    " create index if not exists notification_due on notification (node, status, due_at)",
)


# Step i shows version i+1 as version i+2 to a read connection; it ends with the connection.
VIEWS: Sequence[str] = (
    "create temp view task as select *, null::text as waiting_for, null::text as not_before from task",
    "create temp view notification as select '' as id, '' as node, '' as channel, '' as kind, '' as session,"
    " '' as task, '' as body, '' as created_at, '' as due_at, '' as status, 0 as tries, '' as problem,"
    " '' as ended_at where 1 = 0",
)


def newest(steps: Sequence[str] = STEPS) -> int:
    """The version that this program writes."""
    return len(steps) + 1


async def check(db: Connection, address: Address, steps: Sequence[str] = STEPS) -> int:
    """The version of the tables, 0 if there are none. Raises if it is newer or not a Holdfast store."""
    # Not to_regclass: within a transaction it may not see what another hub has just committed.
    tables = "select count(*) from pg_catalog.pg_tables where schemaname = %s and tablename = 'meta'"
    if await one(db, tables, (address.schema,)) == (0,):
        return 0
    cursor = await db.execute("select value from meta where name = 'schema_version'")
    row = await cursor.fetchone()
    if row is None:
        raise errors.StoreUnreadable(
            f"the schema {address.schema} of {address.name} is there, but not one of Holdfast's"
        )
    version = int(row[0])
    if version > newest(steps):
        raise errors.SchemaNewer(
            f"{address.name} has schema {version}; this Holdfast knows up to {newest(steps)}"
        )
    return version


async def bring_up(db: Connection, address: Address, steps: Sequence[str] = STEPS) -> None:
    """Create the tables, or migrate older ones in one transaction together with their backup."""
    if await check(db, address, steps) == newest(steps):
        return
    async with db.transaction():
        await db.execute("select pg_advisory_xact_lock(%s)", (address.lock,))
        version = await check(db, address, steps)  # another hub may have been faster
        if version == 0:
            await _create(db, address)
            version = newest(steps)
        elif version < newest(steps):
            await _back_up(db, address, version)
        while version < newest(steps):
            await _script(db, steps[version - 1])
            version += 1
        await db.execute(
            "insert into meta values ('schema_version', %s)"
            " on conflict (name) do update set value = excluded.value",
            (str(version),),
        )


async def _create(db: Connection, address: Address) -> None:
    # Not `if not exists`: that needs a right on the database even if the schema exists.
    schemas = "select count(*) from pg_catalog.pg_namespace where nspname = %s"
    if await one(db, schemas, (address.schema,)) == (0,):
        await _script(db, f'create schema "{address.schema}"')
    with open(_SCHEMA, encoding="utf-8") as file:
        await _script(db, file.read())
    await db.execute("insert into meta values ('epoch', %s)", (os.urandom(4).hex(),))


async def _back_up(db: Connection, address: Address, version: int) -> None:
    copy = f"{address.schema}_v{version}_backup_{datetime.now(UTC):%Y%m%d%H%M%S}"
    await _script(db, f'create schema "{copy}"')
    cursor = await db.execute("select tablename from pg_tables where schemaname = %s", (address.schema,))
    for (table,) in await cursor.fetchall():
        await _script(db, f'create table "{copy}"."{table}" as table "{address.schema}"."{table}"')


async def _script(db: Connection, text: str) -> None:
    """Run several statements without parameters."""
    await db.execute(text, prepare=False)
