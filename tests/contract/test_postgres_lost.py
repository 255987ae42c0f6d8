"""Lost connections: retried where that is safe, answered with what really happened where it is not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any

import pytest

from holdfast import errors
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.store.backend import OperationResult
from holdfast.store.postgres import connection, writer
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.sql import Sql
from tests.support.postgres_server import Hub, Server, connect

COMMIT = b"; commit"


async def say(store: PostgresStore, session: str, text: str) -> None:
    await store.commit(Commit(session, [NewEvent("user", {"text": text})]))


async def texts(store: PostgresStore, session: str) -> list[str]:
    return [e.body["text"] for e in await store.events(session) if e.kind == "user"]


def terminate(url: str, pids: Iterable[int]) -> None:
    with connect(url) as db:
        for pid in pids:
            db.execute("select pg_terminate_backend(%s, 5000)", (pid,))


async def writer_pid(store: PostgresStore) -> int:
    async def operation(sql: Sql) -> OperationResult:
        return OperationResult(sql._db.info.backend_pid)  # type: ignore[attr-defined]

    pid: int = await store.transact(operation)
    return pid


async def reader_pid(store: PostgresStore) -> int:
    async def question(sql: Sql) -> int:
        pid: int = sql._db.info.backend_pid  # type: ignore[attr-defined]
        return pid

    return await store.query(question)


async def test_connections_that_end_between_calls_are_made_anew(hub: Hub, postgres_url: str) -> None:
    store = await hub()
    session = (await store.create_session("claude")).id
    for number in range(3):
        old = await writer_pid(store), await reader_pid(store)
        terminate(postgres_url, old)
        await say(store, session, str(number))
        assert await texts(store, session) == [str(i) for i in range(number + 1)]
        assert not set(old) & {await writer_pid(store), await reader_pid(store)}


async def test_a_batch_whose_connection_ends_before_its_commit_is_run_again(
    hub: Hub, postgres_url: str
) -> None:
    store = await hub()
    session = (await store.create_session("claude")).id
    runs: list[int] = []

    async def operation(sql: Sql) -> OperationResult:
        runs.append(sql._db.info.backend_pid)  # type: ignore[attr-defined]
        if len(runs) == 1:
            await asyncio.to_thread(terminate, postgres_url, runs)
        return OperationResult(None)

    await asyncio.gather(say(store, session, "a"), store.transact(operation), say(store, session, "b"))
    assert len(runs) == 2
    assert await texts(store, session) == ["a", "b"]


async def test_a_question_whose_connection_ends_is_asked_again(hub: Hub, postgres_url: str) -> None:
    store = await hub()
    asked: list[int] = []

    async def question(sql: Sql) -> Any:
        asked.append(sql._db.info.backend_pid)  # type: ignore[attr-defined]
        if len(asked) == 1:
            await asyncio.to_thread(terminate, postgres_url, asked)
        return await sql.rows("last_log")

    assert await store.query(question) == [(0,)]
    assert len(asked) == 2


async def test_a_reader_that_is_cancelled_ends(hub: Hub) -> None:
    store = await hub()

    async def read() -> None:
        while True:
            await store.cursor()

    for number in range(25):
        readers = [asyncio.create_task(read()) for _ in range(20)]  # more than there are connections
        await asyncio.sleep(0.001 * number)
        for reader in readers:
            reader.cancel()
        _, going_on = await asyncio.wait(readers, timeout=5.0)
        assert not going_on


async def test_a_hub_that_stalls_in_a_transaction_is_cut_off(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "STALL_MS", 200)
    store, other = await hub(), await hub()
    session = (await store.create_session("claude")).id
    order: list[str] = []
    stalling = asyncio.Event()

    async def stall(sql: Sql) -> OperationResult:
        if not order:
            order.append("stalls")
            stalling.set()
            await asyncio.sleep(0.8)
        order.append("runs")
        return OperationResult(await sql.run("put_seal", id=session, seal="0/0/0"))

    async def wait_for_it() -> None:
        await stalling.wait()
        await say(other, session, "meanwhile")
        order.append("the other wrote")

    await asyncio.gather(store.transact(stall), wait_for_it())
    assert order == ["stalls", "the other wrote", "runs", "runs"]


# --- lost while committing


class Proxy:
    """Stands between a store and the server, and cuts where it is told to."""

    def __init__(self, folder: str, server: str):
        self.folder = folder
        self.cut: str | None = None  # what to do with the next commit
        self.closed = False  # whether new connections are turned away
        self.commits = 0
        self._server = f"{server}/.s.PGSQL.5432"
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> asyncio.AbstractServer:
        return await asyncio.start_unix_server(self._serve, f"{self.folder}/.s.PGSQL.5432")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.closed:
            writer.close()
            return
        up_reader, up_writer = await asyncio.open_unix_connection(self._server)
        back = asyncio.create_task(self._pass_on(up_reader, writer))
        try:
            while data := await reader.read(1 << 16):
                if COMMIT in data:
                    self.commits += 1
                    if self.cut is not None:
                        back.cancel()
                        await self._cut(data, up_reader, up_writer, writer)
                        return
                up_writer.write(data)
        finally:
            back.cancel()
            writer.close()
            up_writer.close()

    async def _cut(
        self,
        data: bytes,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
    ) -> None:
        how, self.cut = self.cut, None
        if how == "commit lost":
            return
        if how == "commit late":
            writer.close()
            await asyncio.sleep(0.5)
        up_writer.write(data)
        assert b"COMMIT" in await up_reader.read(1 << 16)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
            writer.close()


@pytest.fixture
async def proxy(postgres_server: Server) -> AsyncIterator[Proxy]:
    folder = f"{postgres_server.socket_folder}/{os.urandom(3).hex()}"
    os.mkdir(folder)
    proxy = Proxy(folder, postgres_server.socket_folder)
    server = await proxy.start()
    yield proxy
    server.close()


def through(proxy: Proxy, server: Server, url: str) -> str:
    here = server.url("x").partition("host=")[2].partition("&")[0]
    assert here in url
    return url.replace(here, proxy.folder.replace("/", "%2F"))


@pytest.mark.parametrize(
    ("cut", "commits"), [("commit lost", 2), ("answer lost", 1), ("commit late", 1), (None, 1)]
)
async def test_a_commit_without_an_answer_is_there_once(
    hub: Hub, proxy: Proxy, postgres_server: Server, postgres_url: str, cut: str | None, commits: int
) -> None:
    store = await hub(through(proxy, postgres_server, postgres_url))
    session = (await store.create_session("claude")).id
    proxy.cut, proxy.commits = cut, 0
    committed = await store.commit(Commit(session, [NewEvent("user", {"text": "once"})]))
    assert proxy.commits == commits
    assert list(committed.seqs) == [2]
    await say(store, session, "after")
    assert await texts(store, session) == ["once", "after"]


async def test_a_commit_that_nobody_can_be_asked_about_is_unknown(
    hub: Hub, proxy: Proxy, postgres_server: Server, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await hub(through(proxy, postgres_server, postgres_url))
    session = (await store.create_session("claude")).id
    monkeypatch.setattr(connection, "PATIENCE_S", 0.3)
    proxy.cut, proxy.closed = "answer lost", True
    with pytest.raises(errors.CommitUnknown):
        await say(store, session, "unknown")
    with pytest.raises(errors.StoreUnreachable) as caught:
        await say(store, session, "never sent")
    assert not isinstance(caught.value, errors.CommitUnknown)
    proxy.closed = False
    await say(store, session, "after")
    assert await texts(store, session) == ["unknown", "after"]


async def test_hubs_that_are_long_gone_are_forgotten(
    hub: Hub, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PRUNE_EVERY", 2)
    store = await hub()
    await store.create_session("claude")
    with connect(postgres_url) as db:
        for name, age in (("gone", "25 hours"), ("here", "23 hours")):
            db.execute("insert into writer values (%s, 1, now() - %s::interval)", (name, age))
        await store.create_session("claude")
        await store.create_session("claude")
        found = {name for (name,) in db.execute("select id from writer")}
    assert "gone" not in found and "here" in found and len(found) == 2
