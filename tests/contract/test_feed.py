"""The change feed: commit order, cursors that are checked, and followers that miss nothing."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator

import pytest

from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.store.location import Location
from holdfast.store.mirror.writer import IDLE_S
from holdfast.store.store import Store
from holdfast.store.types import ChangeFeedEntry, ChangeFeedPage
from tests.conftest import Opener
from tests.support.store_model import log_of, said, whole_log

OTHER_PROCESS = """
import asyncio, sys
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.token import TokenRules
from holdfast.store.location import Location
from holdfast.store.open import open_store

async def main(kind, address, home, session, count):
    store = await open_store(Location(kind, address), Home(home), TokenRules())
    for i in range(int(count)):
        await store.commit(Commit(session, [NewEvent("user", {"text": f"other {i}"})]))
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


def texts(changes: list[ChangeFeedEntry]) -> list[str]:
    return [change.event.body["text"] for change in changes if change.event.kind == "user"]


async def heard(feed: AsyncIterator[ChangeFeedPage], count: int) -> tuple[list[ChangeFeedEntry], str]:
    """Follow until so many events of conversation came; they, and where to go on."""
    found: list[ChangeFeedEntry] = []
    async with asyncio.timeout(20):
        async for news in feed:
            found += news.changes
            if len(texts(found)) >= count:
                return found, news.cursor
    raise AssertionError("a feed has no end")


async def done(feed: AsyncIterator[ChangeFeedPage]) -> None:
    await feed.aclose()  # type: ignore[attr-defined]


async def test_changes_come_in_commit_order_over_all_sessions(store: Store, opener: Opener) -> None:
    other = await opener()
    one = (await store.create_session("claude")).id
    two = (await other.create_session("codex")).id
    for i in range(6):
        await (store, other)[i % 2].commit(Commit((one, two)[i % 2], [said(f"{i}a"), said(f"{i}b")]))
    found = await whole_log(store)
    assert texts(found) == [f"{i}{half}" for i in range(6) for half in "ab"]
    for session in (one, two):
        assert [c.event for c in found if c.session == session] == await log_of(store, session)
    assert found == await whole_log(other)


async def test_a_cursor_goes_on_where_it_left(store: Store) -> None:
    session = (await store.create_session("claude")).id
    start = await store.cursor()
    assert await store.changes(start) == ChangeFeedPage([], start, False, False)
    await store.commit(Commit(session, [said(str(i)) for i in range(7)]))
    found: list[ChangeFeedEntry] = []
    cursor, more = start, True
    while more:
        page = await store.changes(cursor, limit=3)
        assert not page.gap and len(page.changes) <= 3
        found, cursor, more = found + page.changes, page.cursor, page.more
    assert texts(found) == list("0123456")
    assert cursor == await store.cursor()
    assert (await store.changes(found[2].cursor)).changes == found[3:]  # each has a cursor of its own


async def test_a_cursor_of_elsewhere_is_a_gap_and_starts_anew(store: Store) -> None:
    session = (await store.create_session("claude")).id
    await store.commit(Commit(session, [said("a")]))
    everything = await store.changes()
    assert not everything.gap and len(everything.changes) == 2
    epoch, _, last = (await store.cursor()).partition(".")
    for cursor in (
        "",
        "garbage",
        "0",
        f"{epoch}",
        f"{epoch}.",
        f"{epoch}.x",
        f"{epoch}.-1",
        f"{epoch}.²",
        f"{epoch}.{int(last) + 1}",
        f"{epoch}.{'9' * 5000}",
        f"ffffffff.{last}",
        "\0",
        "\ud800",
    ):
        assert await store.changes(cursor) == everything._replace(gap=True), cursor


async def test_two_databases_do_not_share_cursors(store: Store, home: Home) -> None:
    from holdfast.model.token import TokenRules
    from holdfast.store.open import open_store

    there = await open_store(Location("sqlite", home.database + "-2"), Home(home.path + "-2"), TokenRules())
    try:
        await there.create_session("claude")
        await store.create_session("claude")
        assert (await store.changes(await there.cursor())).gap
    finally:
        await there.close()


async def test_a_follower_hears_its_own_and_other_openers(store: Store, opener: Opener) -> None:
    other = await opener()
    session = (await store.create_session("claude")).id
    feed = store.follow(await store.cursor())

    async def write() -> None:
        for i in range(10):
            await (store, other)[i % 2].commit(Commit(session, [said(str(i))]))
            await asyncio.sleep(0.002 * (i % 3))

    writing = asyncio.create_task(write())
    found, _ = await heard(feed, 10)
    await writing
    assert texts(found) == [str(i) for i in range(10)]
    await done(feed)


async def test_a_follower_hears_other_processes(store: Store, location: Location, home: Home) -> None:
    session = (await store.create_session("claude")).id
    feed = store.follow(await store.cursor())
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OTHER_PROCESS, *location, home.path, session, "5"
    )
    try:
        found, _ = await heard(feed, 5)
    finally:
        assert await child.wait() == 0
    assert texts(found) == [f"other {i}" for i in range(5)]
    await done(feed)


async def test_a_follower_that_comes_back_has_missed_nothing(store: Store, opener: Opener) -> None:
    other = await opener()
    session = (await store.create_session("claude")).id
    cursor: str = await store.cursor()
    stop = asyncio.Event()

    async def write() -> None:
        for i in range(60):
            await other.commit(Commit(session, [said(str(i))]))
        stop.set()

    writing = asyncio.create_task(write())
    found: list[ChangeFeedEntry] = []
    while len(found) < 60:
        feed = store.follow(cursor)
        news, cursor = await heard(feed, 1)
        found += news
        await done(feed)  # and what is written meanwhile is heard the next time
    await writing
    assert stop.is_set() and texts(found) == [str(i) for i in range(60)]


async def test_what_is_written_just_after_a_look_is_heard(
    store: Store, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look and its wait a follower is not deaf.

    Else it would hear by chance a second later, when the mirror is sealed; so it must be quicker in
    one of a few tries, however busy the machine is.
    """
    session = (await store.create_session("claude")).id
    look = store.changes
    for writer in (store, await opener()):
        waited = []
        for _ in range(4):
            pending = [Commit(session, [said("meanwhile")])]

            async def look_and_be_late(
                after: str | None, pending: list[Commit] = pending, writer: Store = writer
            ) -> ChangeFeedPage:
                found = await look(after)
                if pending:
                    await writer.commit(pending.pop())
                return found

            monkeypatch.setattr(store, "changes", look_and_be_late)
            feed = store.follow(await store.cursor())
            began = time.monotonic()
            found, _ = await heard(feed, 1)
            waited.append(time.monotonic() - began)
            await done(feed)
            assert texts(found) == ["meanwhile"]
            if waited[-1] < IDLE_S * 0.8:
                break
        assert min(waited) < IDLE_S * 0.8, waited


async def test_a_follower_with_a_foreign_cursor_is_told_of_the_gap(store: Store) -> None:
    await store.create_session("claude")
    feed = store.follow("elsewhere.5")
    async with asyncio.timeout(10):
        news = await anext(feed)
    assert news.gap and len(news.changes) == 1
    await done(feed)


def thread_count() -> int:
    """Threads besides two bounded pools: the store's readers, and asyncio's, which decodes long answers."""
    pools = ("holdfast-read", "asyncio_")
    return sum(not thread.name.startswith(pools) for thread in threading.enumerate())


async def test_ending_a_follower_leaves_nothing_behind(store: Store) -> None:
    session = (await store.create_session("claude")).id

    async def follow() -> None:
        async for _ in store.follow():
            pass

    warm = asyncio.create_task(follow())
    await asyncio.sleep(0.1)
    tasks, threads = len(asyncio.all_tasks()) - 1, thread_count()
    followers = [asyncio.create_task(follow()) for _ in range(10)]
    await asyncio.sleep(0.1)
    for follower in (warm, *followers):
        follower.cancel()
    ended = await asyncio.gather(warm, *followers, return_exceptions=True)
    assert all(isinstance(e, asyncio.CancelledError) for e in ended)
    async with asyncio.timeout(30):  # a pool of connections shrinks when it gets to it
        while len(asyncio.all_tasks()) > tasks or thread_count() > threads:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    if hasattr(store, "_listeners"):
        assert not store._listeners
    await store.commit(Commit(session, [said()]))


@pytest.mark.parametrize("batch", [1, 40])
async def test_what_is_in_the_feed_is_what_was_acknowledged(store: Store, batch: int) -> None:
    sessions = [(await store.create_session("claude")).id for _ in range(3)]
    cursor = await store.cursor()
    commits = [Commit(sessions[i % 3], [said(f"{i}.{j}") for j in range(batch)]) for i in range(9)]
    await asyncio.gather(*[store.commit(commit) for commit in commits])
    found = []
    while (page := await store.changes(cursor, limit=100)).changes:
        found += page.changes
        cursor = page.cursor
    assert sorted(texts(found)) == sorted(f"{i}.{j}" for i in range(9) for j in range(batch))
    for i in range(9):  # a commit's records stay together and in order
        places = [texts(found).index(f"{i}.{j}") for j in range(batch)]
        assert places == list(range(places[0], places[0] + batch))
