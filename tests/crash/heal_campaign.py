"""Kill `open_healed` again and again while it rebuilds; in the end everything is as it was.

`python -m tests.crash.heal_campaign FOLDER CASE ROUNDS SEED` prints what it saw as JSON, or fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sys
from collections.abc import Callable

import apsw

from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery.heal import heal, open_healed
from holdfast.store.open import open_store
from holdfast.store.sqlite import store as _warm  # noqa: F401 - so that no child has to import it
from tests.crash import children
from tests.crash.support import (
    OWNER,
    RULES,
    Row,
    check_mirrors,
    check_sound,
    essence,
    place,
    quick_mirrors,
    read_database,
    say,
)

SESSIONS = 12
KILLS = 4  # of each damage, before it may be healed to the end

State = dict[str, Row]


async def build(home: Home, sessions: int = SESSIONS, commits: int = 10) -> None:
    """Sessions of every kind: with tokens, tasks and offsets, archived, deleted, restored."""
    store = await open_store(place(home), home, RULES)
    for i in range(sessions):
        session = (await store.create_session("claude", key=f"key-{i}", metadata={"i": i})).id
        task = await store.enqueue(session, f"prompt {i}")
        task = await store.claim(task.id, 0, OWNER, 60.0)
        for k in range(1, commits + 1):
            events = [say(f"{i} {k} {j} " + "x" * 300, f"{k}.{j}") for j in range(4)]
            commit = Commit(session, events, task=task.id, generation=1, spool=k * 100)
            await store.commit(commit)
        await store.see_token(session, "claude", f"native-{i}")
        await store.set_status(task.id, "succeeded", generation=1)
        await store.patch_metadata(session, {"done": i}, 1)
        if i % 4 == 1:
            await store.archive(session, "tester", "done")
        if i % 4 >= 2:
            await store.delete(session, "tester", "not needed")
        if i % 4 == 3:
            await store.restore(session, "tester")
    await store.close()


def database_gone(home: Home, rng: random.Random) -> None:
    """The database and all that belongs to it."""
    for ending in ("", "-wal", "-shm"):
        if os.path.exists(home.database + ending):
            os.unlink(home.database + ending)


def mirrors_gone(home: Home, rng: random.Random) -> None:
    """Every mirror of a session that is not deleted."""
    for name in os.listdir(home.sessions):
        if name.endswith(".jsonl"):
            os.unlink(os.path.join(home.sessions, name))


def mirrors_torn(home: Home, rng: random.Random) -> None:
    """Mirrors cut anywhere, empty, or with zeros in them."""
    for name in sorted(os.listdir(home.sessions)):
        path = os.path.join(home.sessions, name)
        size = os.path.getsize(path)
        if not name.endswith(".jsonl"):
            continue
        with open(path, "r+b") as file:
            if rng.random() < 0.7:
                file.truncate(rng.randrange(size))
            else:
                file.seek(rng.randrange(size - 50))
                file.write(b"\0" * 50)


def database_damaged(home: Home, rng: random.Random) -> None:
    """Pages in the middle of the database overwritten."""
    with open(home.database, "r+b") as file:
        for _ in range(5):
            file.seek(4096 * rng.randrange(4, os.path.getsize(home.database) // 4096))
            file.write(os.urandom(4096))


def database_cut(home: Home, rng: random.Random) -> None:
    """The database shorter than it was, anywhere behind its first page."""
    os.truncate(home.database, rng.randrange(4096, os.path.getsize(home.database)))


def database_not_one(home: Home, rng: random.Random) -> None:
    """Something else under the database's name."""
    with open(home.database, "wb") as file:
        file.write(b"this is no database\n" * 500)


def both_damaged(home: Home, rng: random.Random) -> None:
    """The database has a broken index, and the mirrors lack the end: neither copy is whole alone."""
    for name in os.listdir(home.sessions):
        if name.endswith(".jsonl"):
            with open(os.path.join(home.sessions, name), "r+b") as file:
                lines = file.readlines()
                whole = [i for i, line in enumerate(lines, 1) if b'"crc":"' in line[-20:]]
                file.truncate(sum(map(len, lines[: whole[len(whole) // 2]])))
    db = apsw.Connection(home.database)
    (page,) = db.execute("select rootpage from sqlite_schema where name = 'token_native'").fetchall()[0]
    db.close()
    with open(home.database, "r+b") as file:
        file.seek(4096 * (int(str(page)) - 1))
        file.write(os.urandom(4096))


CASES: dict[str, Callable[[Home, random.Random], None]] = {
    case.__name__: case
    for case in (
        database_gone,
        mirrors_gone,
        mirrors_torn,
        database_damaged,
        database_cut,
        database_not_one,
        both_damaged,
    )
}


def main(folder: str, case: str, rounds: int, seed: int) -> None:
    """Damage, kill, kill, heal, compare; some rounds of it."""
    rng = random.Random(seed)
    first = Home(os.path.join(folder, "first"))
    first.make()
    children.in_child(lambda: asyncio.run(build(first)))
    before: State = children.in_child(lambda: state(first))
    kills = 0
    for number in range(rounds):
        home = Home(os.path.join(folder, f"home-{number}"))
        shutil.copytree(first.path, home.path, symlinks=True)
        CASES[case](home, rng)
        for _ in range(KILLS):
            child = children.start(lambda say: asyncio.run(open_and_close(home)))  # noqa: B023
            children.pause(rng.uniform(0.0, 0.12))
            child.kill()
            kills += 1
        children.in_child(lambda: asyncio.run(open_and_close(home, twice=True)))  # noqa: B023
        after: State = children.in_child(lambda: state(home))  # noqa: B023
        assert set(after) == set(before)
        for name in before:
            assert after[name] == before[name], f"{case}: {name} is not what it was"
        shutil.rmtree(home.path)
    print(json.dumps({"kills": kills, "rounds": rounds}))


async def open_and_close(home: Home, twice: bool = False) -> None:
    """Heal; the second time there is nothing to heal."""
    quick_mirrors()
    store, report = await open_healed(place(home), home, RULES)
    assert not report.problems, report.problems
    if twice:
        again = await heal(store, home, place(home), deep=True)
        assert not again.findings and not again.done, again.findings
    await store.close()


def state(home: Home) -> State:
    """All sessions, both copies being level."""
    sessions = read_database(home.database)
    check_sound(sessions)
    check_mirrors(home, sessions)
    return {name: essence(seen) for name, seen in sessions.items()}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
