"""What only the PostgreSQL store has to show: its address, its schema, and its words for failures."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import holdfast.store.sqlite
from holdfast import errors
from holdfast.home import Home
from holdfast.model.changes import SetStatus
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.session import Session
from holdfast.model.task import WaitingFor
from holdfast.store import reads
from holdfast.store.backend import OperationResult
from holdfast.store.postgres import connection, migrations
from holdfast.store.postgres.connection import parse
from holdfast.store.postgres.readonly import ask_once
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.sql import Sql
from tests.support.postgres_server import Hub, Server, connect
from tests.support.terminal import Terminal

SECRET = "hunter2-very-secret"


def said(text: str) -> NewEvent:
    return NewEvent("user", {"text": text})


async def texts(store: PostgresStore, session: str) -> list[str]:
    return [e.body["text"] for e in await store.events(session) if e.kind == "user"]


# --- the address


@pytest.mark.parametrize(
    "name", ["Up", "a-b", "pg_mine", "information_schema", "1a", "a" * 31, "", "a;b", 'a"']
)
def test_a_schema_name_is_a_plain_word(name: str) -> None:
    with pytest.raises(errors.BadInput):
        parse(f"postgresql://h/d?holdfast_schema={name}")


def test_the_schema_is_ours_and_the_rest_is_the_servers() -> None:
    address = parse("postgresql://u@h/d?application_name=x&holdfast_schema=mine&connect_timeout=9")
    assert address.schema == "mine"
    assert "holdfast_schema" not in address.conninfo
    assert "application_name=x" in address.conninfo and "connect_timeout=9" in address.conninfo
    assert parse("postgresql://h/d").schema == "holdfast"
    assert parse("postgresql://h/d").lock != address.lock


@pytest.mark.parametrize(
    "url", [f"postgresql://u:{SECRET} x@h/d", f"postgresql://u:{SECRET}@h:99999999999/d"]
)
async def test_no_password_in_an_error(url: str) -> None:
    with pytest.raises((errors.BadInput, errors.StoreUnreachable)) as caught:
        await ask_once(url, lambda sql: reads.resolve(sql, "x"))
    assert SECRET not in str(caught.value) and SECRET not in str(caught.value.as_json())
    hidden = parse(f"postgresql://u:{SECRET}@h/d")
    assert SECRET not in str(connection.meaning(psycopg.OperationalError(f"oh {SECRET}"), hidden))


async def test_a_server_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    async with asyncio.timeout(5):
        with pytest.raises(errors.StoreUnreachable):
            await ask_once(f"postgresql://u@/d?host={tmp_path}", lambda sql: reads.resolve(sql, "x"))


# --- the schema


async def test_tables_and_columns_are_those_of_sqlite(hub: Hub, postgres_url: str) -> None:
    await hub()
    path = os.path.join(os.path.dirname(holdfast.store.sqlite.__file__), "schema.sql")
    lite = apsw.Connection(":memory:")
    lite.execute(Path(path).read_text(encoding="utf-8"))
    tables = [name for (name,) in lite.execute("select name from sqlite_schema where type = 'table'")]
    expected = {t: [row[1] for row in lite.execute(f"pragma table_info({t})")] for t in tables}
    with connect(postgres_url) as db:
        found: dict[str, list[str]] = {}
        columns = "select table_name, column_name from information_schema.columns"
        for table, column in db.execute(
            f"{columns} where table_schema = current_schema() order by ordinal_position"
        ):
            found.setdefault(table, []).append(column)
    del found["writer"]
    assert found == expected


async def test_hubs_that_open_an_empty_database_at_once_all_succeed(hub: Hub, postgres_url: str) -> None:
    stores = await asyncio.gather(*[hub() for _ in range(6)])
    assert len({await store.cursor() for store in stores}) == 1


async def test_a_newer_schema_is_refused(hub: Hub, postgres_url: str) -> None:
    await hub()
    with connect(postgres_url) as db:
        newer = str(migrations.newest() + 1)
        db.execute("update meta set value = %s where name = 'schema_version'", (newer,))
    with pytest.raises(errors.SchemaNewer):
        await hub()
    with pytest.raises(errors.SchemaNewer):
        await ask_once(postgres_url, lambda sql: reads.resolve(sql, "x"))


async def test_tables_of_somebody_else_are_refused(hub: Hub, postgres_url: str) -> None:
    with connect(postgres_url) as db:
        db.execute(f"create schema {parse(postgres_url).schema}")
        db.execute("create table meta (name text primary key, value text not null)")
    with pytest.raises(errors.StoreUnreadable, match="not one of Holdfast's"):
        await hub()


async def test_what_is_not_there_is_not_made_by_a_question(postgres_url: str) -> None:
    with pytest.raises(errors.StoreMissing):
        await ask_once(postgres_url, lambda sql: reads.resolve(sql, "x"))
    with connect(postgres_url) as db:
        assert db.execute("select to_regnamespace(%s)", (parse(postgres_url).schema,)).fetchone() == (None,)


async def migrate(url: str, *steps: str) -> None:
    address = parse(url)
    async with await connection.connect(address) as db:
        await migrations.bring_up(db, address, (*migrations.STEPS, *steps))


async def test_a_migration_keeps_a_copy_of_what_was(hub: Hub, postgres_url: str) -> None:
    store = await hub()
    session = await store.create_session("claude", title="kept")
    step = "alter table session add colour text not null default 'green'; update session set title = 'new'"
    with pytest.raises(psycopg.Error):
        await migrate(postgres_url, "update session set title = 'half'; alter table nowhere add x text")
    assert (await store.session(session.id)).title == "kept"
    await asyncio.gather(migrate(postgres_url, step), migrate(postgres_url, step))
    with connect(postgres_url) as db:
        (backup,) = backups_of(db, migrations.newest())
        assert db.execute("select title, colour from session").fetchall() == [("new", "green")]
        assert version_of(db) == migrations.newest() + 1
        old = db.execute(f"select * from {backup}.session")
        assert "colour" not in [column.name for column in old.description or ()]
        assert db.execute(f"select title from {backup}.session").fetchall() == [("kept",)]
        assert db.execute(f"select count(*) from {backup}.log").fetchall() == [(1,)]


def version_of(db: psycopg.Connection[Any]) -> int:
    ((version,),) = db.execute("select value from meta where name = 'schema_version'").fetchall()
    return int(version)


def backups_of(db: psycopg.Connection[Any], version: int) -> list[str]:
    """The schemas with copies of the tables as that version had them."""
    query = "select nspname from pg_namespace where starts_with(nspname, current_schema() || %s)"
    return [name for (name,) in db.execute(query, (f"_v{version}_backup",))]


def make_schema_1(db: psycopg.Connection[Any]) -> None:
    """Turn the tables into those of schema 1, which had no waiting tasks."""
    db.execute("alter table task drop column waiting_for, drop column not_before")
    db.execute("update meta set value = '1' where name = 'schema_version'")


async def test_schema_1_is_read_as_it_is_and_brought_up_at_start(
    hub: Hub, postgres_url: str, home: Home, tmp_path: Path
) -> None:
    old = await hub()
    session = await old.create_session("demo", key="k", cwd="/")
    queued = await old.enqueue(session.id, "go")
    await old.close()
    with connect(postgres_url) as db:
        make_schema_1(db)
    home.make()
    terminal = Terminal(home, str(tmp_path))
    terminal.env["HOLDFAST_STORE"] = postgres_url
    (task,) = terminal.asked("tasks")
    assert (task["id"], task["status"], task["waiting_for"]) == (queued.id, "queued", None)
    assert [one["id"] for one in terminal.asked("ls")] == [session.id]
    terminal.give("show", session.id)
    terminal.give("log", session.id)
    with connect(postgres_url) as db:
        assert version_of(db) == 1 and backups_of(db, 1) == [], "a command that reads has changed the store"
    store = await hub()
    waits = WaitingFor("leftovers", "for a shell", "2026-01-31T12:00:00.000000Z")
    change = SetStatus(status="waiting", reason="later", waiting_for=waits)
    await store.commit(Commit(session.id, [change], task=queued.id))
    assert (await store.task(queued.id)).waiting_for == waits
    with connect(postgres_url) as db:
        assert version_of(db) == migrations.newest() and len(backups_of(db, 1)) == 1
    assert terminal.asked("tasks")[0]["waiting_for"]["text"] == "for a shell"


async def test_a_database_that_cannot_hold_every_text_is_refused(hub: Hub, postgres_server: Server) -> None:
    name = f"ascii_{os.urandom(4).hex()}"
    with postgres_server.admin() as db:
        db.execute(f"create database {name} template template0 encoding 'SQL_ASCII' locale 'C'")
        try:
            with pytest.raises(errors.StoreUnreadable, match="SQL_ASCII"):
                await hub(postgres_server.url("x").replace("/postgres?", f"/{name}?"))
        finally:
            db.execute(f"drop database {name}")


# --- settings and refusals


def with_option(url: str, setting: str) -> str:
    return f"{url}&options=-c%20{setting}"


async def test_a_commit_waits_for_the_disk_whatever_the_default(hub: Hub, postgres_url: str) -> None:
    store = await hub(with_option(postgres_url, "synchronous_commit%3Doff"))
    found: list[Any] = []

    async def operation(sql: Sql) -> OperationResult:
        found.extend(await (await sql._db.execute("show synchronous_commit")).fetchall())  # type: ignore[attr-defined]
        return OperationResult(None)

    await store.transact(operation)
    assert found == [("on",)]


async def test_a_read_only_database_says_so_and_can_be_read(hub: Hub, postgres_url: str) -> None:
    session = await (await hub()).create_session("claude")
    store = await hub(with_option(postgres_url, "default_transaction_read_only%3Don"))
    assert (await store.session(session.id)).id == session.id
    with pytest.raises(errors.StoreReadOnly):
        await store.create_session("claude")


async def test_a_lock_that_another_holds_is_busy(
    hub: Hub, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LOCK_MS", 100)
    store = await hub()
    with connect(postgres_url) as db, db.transaction():
        db.execute("select pg_advisory_xact_lock(%s)", (parse(postgres_url).lock,))
        results = await asyncio.gather(
            *[store.create_session("claude") for _ in range(5)], return_exceptions=True
        )
        assert [type(r) for r in results] == [errors.StoreBusy] * 5
    await store.create_session("claude")


@pytest.mark.parametrize("odd", ["s\0", "s\ud800"])
async def test_a_text_that_no_row_can_hold_is_refused_alone(hub: Hub, odd: str) -> None:
    store = await hub()

    async def operation(sql: Sql) -> OperationResult:
        return OperationResult(await sql.rows("live_key", key=odd))

    with pytest.raises(errors.UnstorableText):
        await store.query(operation)
    results = await asyncio.gather(
        store.create_session("claude"), store.transact(operation), return_exceptions=True
    )
    assert [type(result) for result in results] == [Session, errors.UnstorableText]


async def test_an_operation_that_fails_fails_alone(hub: Hub, postgres_url: str) -> None:
    store = await hub()
    session = (await store.create_session("claude")).id

    async def wrong(sql: Sql) -> OperationResult:
        await sql.run("put_metadata", n=1, metadata="{}")
        await sql.run("put_metadata", n=1, metadata=None)
        return OperationResult(None)

    async def late(sql: Sql) -> OperationResult:
        await sql.run("put_metadata", n=1, metadata='{"late": 1}')
        raise errors.Refused("after it had written")

    results = await asyncio.gather(
        store.commit(Commit(session, [said("one")])),
        store.transact(wrong),
        store.commit(Commit(session, [said("two")])),
        store.transact(late),
        store.commit(Commit(session, [said("three")])),
        return_exceptions=True,
    )
    kinds = [type(r).__name__ for r in results]
    assert kinds == ["CommitResult", "StoreUnreadable", "CommitResult", "RuntimeError", "CommitResult"]
    assert await texts(store, session) == ["one", "two", "three"]
    assert (await store.session(session)).metadata == {}


async def test_a_question_sees_one_state(hub: Hub, postgres_url: str) -> None:
    store, other = await hub(), await hub()

    async def question(sql: Sql) -> tuple[Any, Any]:
        before = await sql.rows("last_log")
        await other.create_session("claude")
        return before, await sql.rows("last_log")

    before, after = await store.query(question)
    assert before == after


async def test_what_is_beyond_a_pages_budget_stays_on_the_server(hub: Hub, postgres_url: str) -> None:
    store = await hub()
    session = (await store.create_session("claude")).id
    await store.commit(Commit(session, [said("x" * 1_000_000) for _ in range(20)]))
    sizes = [1_000_000 + len('{"text":""}')]

    async def question(sql: Sql) -> list[int]:
        rows = await sql.rows("log", budget=sizes[0] * 3, n=1, after=1, limit=500)
        assert all(len(row) == 9 for row in rows)
        more = await sql.rows("log", budget=1, n=1, after=1, limit=500)
        return [len(rows), len(more)]

    assert await store.query(question) == [3, 1]
    assert len(await store.events(session, after=1)) == -(-reads.PAGE_CHARACTERS // sizes[0])
