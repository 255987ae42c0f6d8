"""The child of the kill loop: it writes to several sessions at once and says what was acknowledged.

Everything it writes is a sequence that can be told from its number, so that after a kill the next
child goes on where the log ends, as a hub does from its spool offset, and the checker knows every
record there may be.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from holdfast import errors
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.store.open import open_store
from holdfast.store.store import Store
from tests.crash.support import OWNER, RULES, place, quick_mirrors, say

FEEDS = 3
BATCH = 4  # events of one commit, at the most
STEP = 10  # bytes of spool an event came from

Say = Callable[[str], None]


async def set_up(home: Home) -> None:
    """Three sessions with a queued task each, and one for the trash."""
    store = await open_store(place(home), home, RULES)
    for i in range(FEEDS):
        session = await store.create_session("claude", key=f"feed-{i}")
        await store.enqueue(session.id, "go")
    await store.create_session("claude", title="for the trash")
    await store.close()


def run(home: Home, seed: int, quick: bool, tell: Say) -> None:
    """Write until killed."""
    if quick:
        quick_mirrors()
    asyncio.run(_write(home, random.Random(seed), tell))


async def _write(home: Home, rng: random.Random, tell: Say) -> None:
    store = await open_store(place(home), home, RULES)
    tasks = await store.tasks()
    trash = (await store.sessions(state="all", text="for the trash", empty=True)).sessions[0].id
    work: list[Awaitable[None]] = [_feed(store, task.id, rng, tell) for task in tasks]
    work += [_change(store, task.session, tell) for task in tasks]
    work += [_throw_away(store, trash, tell)]
    await asyncio.gather(*work)


async def _feed(store: Store, name: str, rng: random.Random, tell: Say) -> None:
    """Events from a spool, some of them read twice, each commit with its new offset."""
    task = await store.task(name)
    task = await store.claim(name, task.generation, OWNER, 60.0)
    tell(f"claim {task.session} {task.generation}")
    done = task.spool // STEP
    while True:
        again, more = rng.randint(0, min(2, done)), rng.randint(1, BATCH)
        events = [say(f"event {i}", f"r{i}") for i in range(done - again + 1, done + more + 1)]
        spool = (done + more) * STEP
        commit = Commit(task.session, events, task=name, generation=task.generation, spool=spool)
        committed = await store.commit(commit)
        assert (committed.dropped, len(committed.seqs)) == (again, more), committed
        done += more
        tell(f"feed {task.session} {done} {committed.seqs[-1]}")
        if rng.random() < 0.1:
            await store.renew(name, task.generation, 60.0)


async def _change(store: Store, session: str, tell: Say) -> None:
    """Metadata, tokens, archive and title in turn."""
    header = await store.session(session)
    version = header.version
    number = await _count(store, session, is_change)
    while True:
        number += 1
        match number % 6:
            case 1:
                version = (await store.patch_metadata(session, {"n": number}, version)).version
            case 2:
                assert await store.see_token(session, "claude", f"native-{number}")
            case 3:
                await store.archive(session, "tester", f"reason {number}")
            case 4:
                patch = {"in": {f"k{number}": number}}
                version = (await store.patch_metadata(session, patch, version)).version
            case 5:
                await store.unarchive(session, f"tester {number}")
            case _:
                await store.describe(session, title=f"title {number}")
        tell(f"change {session} {number}")


async def _throw_away(store: Store, session: str, tell: Say) -> None:
    """An event, a delete, a restore, and so on."""
    number = await _count(store, session, lambda kind, body: body.get("op") != "create")
    while True:
        number += 1
        match number % 3:
            case 1:
                await store.commit(Commit(session, [say(f"event {number}")]))
            case 2:
                await store.delete(session, "tester", f"reason {number}")
                try:
                    await store.commit(Commit(session, [say("never")]))
                except errors.SessionDeleted:
                    pass
                else:
                    raise AssertionError("a deleted session took an event")
            case _:
                await store.restore(session, f"tester {number}")
        tell(f"trash {session} {number}")


def is_change(kind: str, body: dict[str, object]) -> bool:
    """Whether a record is one of `_change`'s."""
    return kind in ("session", "token") and body.get("op") != "create"


async def _count(store: Store, session: str, wanted: Callable[[str, dict[str, object]], bool]) -> int:
    count = after = 0
    while page := await store.events(session, after):
        count += sum(wanted(event.kind, event.body) for event in page)
        after = page[-1].seq
    return count
