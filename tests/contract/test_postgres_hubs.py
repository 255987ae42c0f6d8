"""Several hubs on one database: one order of everything, each task once, news of all to all."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable

import pytest

from holdfast import errors
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.task import Owner
from holdfast.store.backend import OperationResult
from holdfast.store.postgres import store as news
from holdfast.store.postgres.connection import parse
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.sql import Sql
from holdfast.store.types import ChangeFeedEntry
from tests.support.postgres_server import Hub, connect
from tests.support.store_calls import claim_next


def event(text: str = "x") -> NewEvent:
    return NewEvent("user", {"text": text})


def owner(name: str) -> Owner:
    return Owner(host=name, pid=1, started=1.0, boot="b")


async def until(so: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not so():  # noqa: ASYNC110 - others change what is looked at
            await asyncio.sleep(0.01)


async def test_each_queued_task_is_claimed_once(hub: Hub) -> None:
    stores = [await hub() for _ in range(3)]
    for _ in range(30):
        session = await stores[0].create_session("claude")
        await stores[0].enqueue(session.id, "go")

    async def work(store: PostgresStore, name: str) -> list[str]:
        claimed = []
        while task := await claim_next(store, owner(name), 60.0, any_host=True):
            assert task.owner == owner(name)
            claimed.append(task.id)
        return claimed

    claimed = await asyncio.gather(
        *[work(store, f"{i}-{k}") for i, store in enumerate(stores) for k in range(3)]
    )
    found = [task for some in claimed for task in some]
    assert len(found) == len(set(found)) == 30
    assert all(task.generation == 1 for task in await stores[0].tasks())


async def test_the_feed_of_two_writing_hubs_misses_and_reorders_nothing(hub: Hub) -> None:
    writers, reader = [await hub(), await hub()], await hub()
    sessions = [(await writers[0].create_session("claude")).id for _ in range(4)]
    rng = random.Random(7)
    writing = True

    async def write(store: PostgresStore) -> None:
        for _ in range(60):
            events = [event() for _ in range(rng.randint(1, 4))]
            await store.commit(Commit(rng.choice(sessions), events))

    async def read() -> list[ChangeFeedEntry]:
        seen: list[ChangeFeedEntry] = []
        cursor: str | None = None
        while True:
            last_round = not writing
            found = await reader.changes(cursor, limit=rng.randint(1, 50))
            assert not found.gap
            seen += found.changes
            cursor = found.cursor
            if last_round and not found.more:
                return seen

    async def write_all() -> None:
        nonlocal writing
        await asyncio.gather(*[write(store) for store in writers for _ in range(3)])
        writing = False

    seen, _ = await asyncio.gather(read(), write_all())
    places = [int(change.cursor.partition(".")[2]) for change in seen]
    assert places == list(range(1, len(seen) + 1))
    for session in sessions:
        seqs = [change.event.seq for change in seen if change.session == session]
        assert seqs == list(range(1, (await reader.session(session)).events + 1))


async def test_a_follower_hears_of_another_hubs_commits_at_once(hub: Hub) -> None:
    store, other = await hub(), await hub()
    session = (await store.create_session("claude")).id
    found: list[ChangeFeedEntry] = []

    async def follow() -> None:
        async for changes in store.follow():
            found.extend(changes.changes)

    following = asyncio.create_task(follow())
    await until(lambda: len(found) == 1)
    for number in range(20):
        await other.commit(Commit(session, [event()]))
        await until(lambda: len(found) == number + 2, news.LOOK_S / 5)  # noqa: B023
    following.cancel()


async def test_a_listener_that_was_cut_off_misses_nothing(hub: Hub, postgres_url: str) -> None:
    store, other = await hub(), await hub()
    session = (await store.create_session("claude")).id
    found: list[ChangeFeedEntry] = []

    async def follow() -> None:
        async for changes in store.follow():
            found.extend(changes.changes)

    following = asyncio.create_task(follow())
    await until(lambda: len(found) == 1)
    listening = f'listen "{parse(postgres_url).schema}"'
    for _ in range(3):
        with connect(postgres_url) as db:
            query = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where query = %s"
            assert db.execute(query, (listening,)).fetchall() == [(True,)]
        before = len(found)
        await other.commit(Commit(session, [event()]))  # while nobody listens
        await until(lambda: len(found) == before + 1, news.LOOK_S / 2)  # noqa: B023
    await other.commit(Commit(session, [event()]))
    await until(lambda: len(found) == 5, news.LOOK_S / 2)
    assert [change.event.seq for change in found] == [1, 2, 3, 4, 5]
    following.cancel()


async def test_a_home_mirrors_the_sessions_of_its_node_whoever_wrote_them(hub: Hub) -> None:
    """Two homes on one machine are two nodes."""
    stores = [await hub(), await hub()]
    nodes = [store.node for store in stores]
    assert nodes[0] is not None and nodes[1] is not None and nodes[0].id != nodes[1].id
    own = [(await stores[1].create_session("claude", host=node.id)).id for node in nodes if node]
    await stores[0].create_session("claude", host="elsewhere")
    shared = (await stores[0].create_session("claude")).id
    await stores[1].commit(Commit(own[0], [event("from afar")]))
    await stores[0].commit(Commit(own[1], [event("from afar")]))

    def look(home: Home, mine: str) -> tuple[set[str], str]:
        names = {name for name in os.listdir(home.sessions) if name.endswith(".jsonl")}
        with open(home.mirror(mine), encoding="utf-8") as file:
            return names, file.read()

    for store, mine in zip(stores, own, strict=True):
        names, text = await store.with_mirrors(lambda files: look(files.home, mine)) or (set(), "")  # noqa: B023
        assert names == {f"{mine}.jsonl", f"{shared}.jsonl"}
        assert "from afar" in text


async def test_closing_finishes_what_was_handed_in_and_wakes_followers(hub: Hub) -> None:
    store = await hub()
    session = (await store.create_session("claude")).id
    mirror = await store.with_mirrors(lambda files: files.home.mirror(session)) or ""
    heard = asyncio.Event()

    async def follow() -> None:
        async for _ in store.follow():
            heard.set()

    following = asyncio.create_task(follow())
    await heard.wait()

    async def slow(sql: Sql) -> OperationResult:
        await asyncio.sleep(0.3)
        return OperationResult(None)

    slowly = asyncio.create_task(store.transact(slow))
    pending = [asyncio.create_task(store.commit(Commit(session, [event()]))) for _ in range(20)]
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    await slowly
    assert [len((await commit).seqs) for commit in pending] == [1] * 20
    with open(mirror, encoding="utf-8") as file:
        assert len(file.readlines()) == 21
    with pytest.raises(errors.StoreClosed):
        await asyncio.wait_for(following, 1.0)
    for late in (store.create_session("claude"), store.session(session), store.with_mirrors(lambda files: 0)):
        with pytest.raises(errors.StoreClosed):
            await late
