"""One of several processes on a store: `python -m tests.crash.process_child HOME JOB WORDS…`.

Each waits for a line on its standard input before it begins, so that all begin at once, and prints what
was acknowledged as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast import errors
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.store.open import open_store
from holdfast.store.sqlite import connection
from holdfast.store.store import Store
from tests.crash.support import OWNER, RULES, place, quick_mirrors, say

Job = Callable[..., Awaitable[Any]]


async def append(store: Store, me: str, count: str, *sessions: str) -> dict[str, list[Any]]:
    """Append to all sessions at once; per session, the text and seq of each acknowledged event."""
    acked: dict[str, list[Any]] = {session: [] for session in sessions}

    async def one(session: str) -> None:
        for number in range(int(count)):
            text = f"{me} {number}"
            committed = await store.commit(Commit(session, [say(text, text)]))
            assert not committed.dropped
            acked[session].append([text, committed.seqs[0]])

    await asyncio.gather(*(one(session) for session in sessions))
    return acked


async def race(store: Store, me: str, count: str, session: str) -> dict[str, int]:
    """Append events that others append, too; how many were new and how many were dropped."""
    new = dropped = 0
    for number in range(int(count)):
        events = [say(f"{number} {i}", f"{number}.{i}") for i in range(3)]
        committed = await store.commit(Commit(session, events))
        new, dropped = new + len(committed.seqs), dropped + committed.dropped
    return {"new": new, "dropped": dropped}


async def turns(store: Store, me: str, session: str, task: str) -> str:
    """Do what the lines on standard input say, one at a time, and answer each: for interleaving by hand."""
    loop = asyncio.get_running_loop()
    while words := (await loop.run_in_executor(None, sys.stdin.readline)).split():
        try:
            answer: Any = await _turn(store, me, session, task, words)
        except errors.HoldfastError as problem:
            answer = problem.code
        print(json.dumps(answer), flush=True)
    return "done"


async def _turn(store: Store, me: str, session: str, task: str, words: list[str]) -> Any:
    match words:
        case ["event", text]:
            return list((await store.commit(Commit(session, [say(text, text)]))).seqs)
        case ["feed", generation, spool]:
            commit = Commit(
                session,
                [say(f"{me} fed {spool}", f"spool {spool}")],
                task=task,
                generation=int(generation),
                spool=int(spool),
            )
            return list((await store.commit(commit)).seqs)
        case ["claim", generation]:
            return (await store.claim(task, int(generation), OWNER, 60.0)).generation
        case ["renew", generation]:
            return await store.renew(task, int(generation), 60.0)
        case ["patch", version]:
            return (await store.patch_metadata(session, {me: int(version)}, int(version))).version
        case ["archive"]:
            return (await store.archive(session, me, "turn")).state
        case ["unarchive"]:
            return (await store.unarchive(session, me)).state
        case ["delete"]:
            return (await store.delete(session, me, "turn")).state
        case ["restore"]:
            return (await store.restore(session, me)).state
        case ["status", generation, status]:
            return (await store.set_status(task, status, generation=int(generation))).status  # type: ignore[arg-type]
        case ["head"]:
            return (await store.session(session)).events
    raise AssertionError(words)


async def hold(store: Store, me: str, seconds: str) -> str:
    """Hold the file's write lock with changes inside, as a long transaction does."""
    db = connection.open_writer(store._path)  # type: ignore[attr-defined]
    db.execute("begin immediate")
    db.execute("update meta set value = value || 'x' where name = 'nothing'")
    print("holding", flush=True)
    await asyncio.sleep(float(seconds))
    db.execute("rollback")
    db.close()
    return "done"


JOBS: dict[str, Job] = {job.__name__: job for job in (append, race, turns, hold)}


async def main(home: Home, job: str, *words: str) -> None:
    """Open, wait for the word, work, tell, close."""
    quick_mirrors()
    store = await open_store(place(home), home, RULES)
    print("ready", flush=True)
    sys.stdin.readline()
    told = await JOBS[job](store, *words)
    await store.close()
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Home(sys.argv[1]), *sys.argv[2:]))
