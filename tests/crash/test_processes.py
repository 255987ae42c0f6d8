"""Several processes on one file: what was acknowledged is there once, in order; readers never wait."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import errors
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery.heal import open_healed
from holdfast.store.mirror import thread as mirror_thread
from holdfast.store.open import open_store
from holdfast.store.sqlite import connection
from holdfast.store.sqlite.store import SqliteStore
from tests.crash.children import command, environment
from tests.crash.support import RULES, check_mirrors, check_sound, place, read_database, say

PROCESSES = 4
APPENDS = 60  # of each process to each session
PATIENCE_S = 60.0


class Other:
    """Another process on the store, spoken to by lines."""

    def __init__(self, home: Home, *words: object):
        pipe = subprocess.PIPE
        line = command("process_child", home.path, *words)
        self._process = subprocess.Popen(line, env=environment(), stdin=pipe, stdout=pipe, text=True)
        assert self.hear() == "ready"

    def tell(self, line: str) -> None:
        """Say something to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """Its next line."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ask(self, line: str) -> Any:
        """Its answer to a line."""
        self.tell(line)
        return json.loads(self.hear())

    def end(self) -> None:
        """Wait for its end, which must be a good one."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(PATIENCE_S) == 0
        self._process.stdout.close()


@contextmanager
def others(home: Home, *lines: tuple[object, ...]) -> Iterator[list[Other]]:
    """Processes that are ready, and have ended well afterwards."""
    started = [Other(home, *words) for words in lines]
    yield started
    for other in started:
        other.end()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home."""
    return Home(str(tmp_path / "home"))


async def new_sessions(home: Home, count: int) -> list[str]:
    """Some sessions in a new store."""
    store = await open_store(place(home), home, RULES)
    found = [(await store.create_session("claude")).id for _ in range(count)]
    await store.close()
    return found


async def check_home(home: Home) -> None:
    """Sound, and both copies level without any help of heal's."""
    sessions = read_database(home.database)
    check_sound(sessions)
    check_mirrors(home, sessions)
    store, report = await open_healed(place(home), home, RULES, deep=True)
    await store.close()
    assert not report.findings, report.findings


async def test_appends_of_many_processes_are_all_there_once(home: Home) -> None:
    """Each acknowledged event stands at the seq it was acknowledged with; no gaps; mirrors equal."""
    shared, *own = await new_sessions(home, PROCESSES + 1)
    lines = [("append", f"p{i}", APPENDS, shared, own[i]) for i in range(PROCESSES)]
    with others(home, *lines) as processes:
        for process in processes:
            process.tell("go")
        acked = [json.loads(process.hear()) for process in processes]
    sessions = read_database(home.database)
    for session, seen in sessions.items():
        stored = {row["seq"]: json.loads(row["body"]).get("text") for row in seen.log[1:]}
        told = {seq: text for each in acked for text, seq in each.get(session, [])}
        assert stored == told, session
    assert len(sessions[shared].log) == 1 + PROCESSES * APPENDS
    await check_home(home)


async def test_an_origin_raced_by_processes_is_stored_once(home: Home) -> None:
    """Every process is told what was new and what was dropped; together they come to one of each."""
    (session,) = await new_sessions(home, 1)
    with others(home, *[("race", f"p{i}", 50, session) for i in range(3)]) as processes:
        for process in processes:
            process.tell("go")
        told = [json.loads(process.hear()) for process in processes]
    assert sum(each["new"] for each in told) == 150
    assert sum(each["dropped"] for each in told) == 300
    assert len(read_database(home.database)[session].log) == 151
    await check_home(home)


async def test_readers_never_wait_for_a_writer(home: Home) -> None:
    """While a process holds a long write transaction, headers, events and new readers answer at once."""
    (session,) = await new_sessions(home, 1)
    store = await open_store(place(home), home, RULES)
    with others(home, ("hold", "holder", 0.6)) as (holder,):
        holder.tell("go")
        assert holder.hear() == "holding"
        began = time.monotonic()
        for _ in range(20):
            assert (await store.session(session)).events == 1
            assert len(await store.events(session)) == 1
            assert len((await store.sessions(empty=True)).sessions) == 1
            connection.open_reader(home.database).close()
        assert time.monotonic() - began < 0.5, "a reader waited"
        assert (await store.commit(Commit(session, [say("in turn")]))).seqs == range(2, 3)
        assert time.monotonic() - began >= 0.4, "the writer did not hold the lock at all"
        assert json.loads(holder.hear()) == "done"
    await store.close()


async def test_a_lock_held_too_long_is_store_busy(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits longer than the busy timeout is told so, nothing is written, and the next try works."""
    (session,) = await new_sessions(home, 1)
    monkeypatch.setattr(connection, "BUSY_MS", 50)
    store = await open_store(place(home), home, RULES)
    with others(home, ("hold", "holder", 1.0)) as (holder,):
        holder.tell("go")
        assert holder.hear() == "holding"
        with pytest.raises(errors.StoreBusy) as caught:
            await store.commit(Commit(session, [say("too early")]))
        assert (caught.value.code, caught.value.exit_status) == ("store_busy", 6)
        with pytest.raises(errors.StoreBusy):
            await store.patch_metadata(session, {"a": 1}, 1)
        assert (await store.session(session)).events == 1
        holder.hear()
    assert (await store.commit(Commit(session, [say("now")]))).seqs == range(2, 3)
    await store.close()
    await check_home(home)


async def test_what_a_writer_remembers_is_never_stale(home: Home) -> None:
    """Two processes in turn on one session: seqs, origins, offsets, generations and states are the file's."""
    (session,) = await new_sessions(home, 1)
    store = await open_store(place(home), home, RULES)
    task = (await store.enqueue(session, "go")).id
    await store.close()
    with others(home, ("turns", "a", session, task), ("turns", "b", session, task)) as (a, b):
        a.tell("go")
        b.tell("go")
        assert a.ask("event one") == [3]
        assert b.ask("event two") == [4]
        assert a.ask("event three") == [5]
        assert b.ask("event one") == [], "an origin that the other process stored was stored again"
        assert a.ask("event two") == []
        assert a.ask("claim 0") == 1
        assert a.ask("feed 1 10") == [7]
        assert a.ask("feed 1 20") == [8]
        assert b.ask("feed 1 15") == "illegal_change", "the spool offset went back"
        assert b.ask("feed 1 30") == [9]
        assert a.ask("feed 1 25") == "illegal_change"
        assert a.ask("feed 1 40") == [10]
        assert b.ask("claim 1") == 2
        assert a.ask("feed 1 50") == "stale_generation", "an owner went on after another had taken its task"
        assert a.ask("renew 1") == "stale_generation"
        assert b.ask("renew 2") is None
        assert b.ask("feed 2 50") == [12]
        assert a.ask("patch 1") == 2
        assert b.ask("patch 1") == "version_mismatch"
        assert b.ask("patch 2") == 3
        assert a.ask("event four") == [15]
        assert b.ask("status 2 succeeded") == "succeeded"
        assert a.ask("feed 2 60") == "stale_generation"
        assert b.ask("event five") == [17]
        assert a.ask("delete") == "deleted"
        assert b.ask("event six") == "session_deleted", "a deleted session took an event"
        assert b.ask("restore") == "live"
        assert a.ask("event six") == [20]
        assert b.ask("archive") == "archived"
        assert a.ask("event seven") == [22]
        assert a.ask("unarchive") == "live"
        assert b.ask("head") == 23
    await check_home(home)


@pytest.mark.usefixtures("quick")
async def test_mirrors_are_written_by_one_process_at_a_time(home: Home) -> None:
    """While another process holds the mirrors, commits are acknowledged and the mirror waits for its turn."""
    (session,) = await new_sessions(home, 1)
    store = await open_store(place(home), home, RULES)
    before = Path(home.mirror(session)).read_bytes()
    with open(os.path.join(home.sessions, ".lock"), "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert (await store.commit(Commit(session, [say("acknowledged")]))).seqs == range(2, 3)
        await asyncio.sleep(0.1)
        assert Path(home.mirror(session)).read_bytes() == before, "two processes write to one mirror"
    await store.close()
    await check_home(home)


async def test_work_on_the_mirrors_is_never_forgotten(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that waits for the mirrors is answered, however the threads take turns."""
    monkeypatch.setattr(mirror_thread, "LAG_S", 0.0)
    home.make()
    store = SqliteStore(home.database, home, RULES)
    thread = store._mirror
    assert thread is not None
    stop = threading.Event()

    def ring() -> None:
        while not stop.is_set():
            thread.touch([])
            time.sleep(0)

    ringer = threading.Thread(target=ring)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    ringer.start()
    try:
        end = time.monotonic() + 4.0
        while time.monotonic() < end:
            await asyncio.wait_for(store.with_mirrors(lambda files: None), 5.0)
    finally:
        stop.set()
        ringer.join()
        sys.setswitchinterval(interval)
    await store.close()
