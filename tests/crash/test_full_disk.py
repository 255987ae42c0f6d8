"""A full disk gives a clear error and leaves nothing half written; with room again, work goes on."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from holdfast import durable_io, errors
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery.heal import heal, open_healed
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.store import Store
from tests.crash.children import command, environment
from tests.crash.small_disk import SmallDisk
from tests.crash.support import RULES, check_mirrors, check_sound, mirror_rows, place, read_database, say

pytestmark = pytest.mark.usefixtures("quick")

ROOM_S = 10.0  # how long mirrors may take to catch up once there is room


class Written(NamedTuple):
    """What came of writing until the disk was full, by session."""

    acked: dict[str, list[int]]  # seqs
    refused: dict[str, Commit]


async def write_until_full(store: Store, sessions: list[str], size: int = 3000) -> Written:
    """Write to all sessions at once until each was refused for want of room."""
    acked: dict[str, list[int]] = {session: [] for session in sessions}
    refused: dict[str, Commit] = {}

    async def write(session: str) -> None:
        for number in range(5000):
            commit = Commit(session, [say("x" * size, f"{size} {number}"), say("and")])
            try:
                committed = await store.commit(commit)
            except errors.DiskFull as problem:
                assert (problem.code, problem.exit_status) == ("disk_full", 8)
                refused[session] = commit
                return
            acked[session] += committed.seqs
        raise AssertionError("the disk did not fill")

    await asyncio.gather(*(write(session) for session in sessions))
    return Written(acked, refused)


def check_whole_lines(home: Home) -> None:
    """No mirror ends inside a line or a commit, and each is the beginning of its log."""
    sessions = read_database(home.database)
    for name in os.listdir(home.sessions):
        if name.endswith(".jsonl") and os.path.getsize(os.path.join(home.sessions, name)):
            rows = mirror_rows(os.path.join(home.sessions, name))
            log = sessions[name.removesuffix(".jsonl")].log
            assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
            assert len(rows) <= len(log) and rows[-1]["last"]


async def level(store: SqliteStore, home: Home) -> None:
    """Until the mirrors have caught up by themselves."""
    loop = asyncio.get_running_loop()
    end = loop.time() + ROOM_S
    while True:
        try:
            check_mirrors(home, read_database(home.database))
        except (AssertionError, FileNotFoundError):
            assert loop.time() < end, f"the mirrors did not catch up: {store.mirror_problem}"
            await asyncio.sleep(0.02)
        else:
            break
    while store.mirror_problem is not None:
        assert loop.time() < end, store.mirror_problem
        await asyncio.sleep(0.02)


async def test_what_was_acknowledged_is_stored_and_nothing_else(small_disk: SmallDisk) -> None:
    """Callers get disk_full; acknowledged is stored, reads work, and with room the same store goes on."""
    home = small_disk.home
    store = SqliteStore(home.database, home, RULES)
    sessions = [(await store.create_session("claude")).id for _ in range(4)]
    acked, refused = await write_until_full(store, sessions)
    await write_until_full(store, sessions, size=100)
    for session in sessions:
        events = await store.events(session, limit=10_000)
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        assert set(acked[session]) <= {e.seq for e in events} and acked[session]
        with pytest.raises(errors.DiskFull):
            await store.patch_metadata(session, {"big": "x" * 500_000}, 1)
        assert (await store.session(session)).version == 1
    check_sound(read_database(home.database))
    check_whole_lines(home)
    _run_remount(small_disk, "12m")
    for session in sessions:
        before = (await store.session(session)).events
        committed = await store.commit(refused[session])
        assert (committed.seqs, committed.dropped) == (range(before + 1, before + 3), 0)
    await level(store, home)
    await store.close()
    await nothing_to_heal(home)


def _run_remount(disk: SmallDisk, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", disk.path], check=True)


async def nothing_to_heal(home: Home) -> None:
    """The next start finds everything in order."""
    store, report = await open_healed(place(home), home, RULES, deep=True)
    await store.close()
    assert not report.findings and not report.problems, report


async def test_what_was_refused_can_be_given_again(small_disk: SmallDisk) -> None:
    """Events whose commit found no room are new when they come again; nothing remembers them as stored."""
    home = small_disk.home
    store = SqliteStore(home.database, home, RULES)
    session = (await store.create_session("claude")).id
    await store.commit(Commit(session, [say("first", "o1")]))
    small_disk.fill()
    refused = Commit(session, [say("x" * 400_000, "o2"), say("and", "o3")])
    with pytest.raises(errors.DiskFull):
        await store.commit(refused)
    small_disk.make_room()
    await store.commit(Commit(session, [say("now the log is as long"), say("as it would have been")]))
    again = await store.commit(refused)
    assert (again.seqs, again.dropped) == (range(5, 7), 0), "what was refused is taken for stored"
    await store.close()
    await nothing_to_heal(home)


async def test_mirrors_that_found_no_room_catch_up(small_disk: SmallDisk) -> None:
    """While the database still has room of its own the mirrors only lag, also new ones, and say why."""
    home = small_disk.home
    store = SqliteStore(home.database, home, RULES)
    old = (await store.create_session("claude")).id
    for _ in range(40):  # the WAL's room is used again after a checkpoint
        await store.commit(Commit(old, [say("x" * 3000)]))
    await level(store, home)
    db = apsw.Connection(home.database)
    db.execute("pragma wal_checkpoint(full)")
    db.close()
    small_disk.fill()
    new = (await store.create_session("claude")).id
    await store.commit(Commit(old, [say("y" * 3000)]))
    for _ in range(200):
        await asyncio.sleep(0.01)
        if store.mirror_problem is not None:
            break
    assert "no room" in (store.mirror_problem or ""), "the mirrors did not say why they lag"
    await asyncio.sleep(0.05)
    check_whole_lines(home)
    assert (await store.events(new))[0].seq == 1
    small_disk.make_room()
    await level(store, home)
    await store.close()
    await nothing_to_heal(home)


async def test_a_delete_that_finds_no_room_changes_nothing(small_disk: SmallDisk) -> None:
    """Without room for the tombstone the session stays as it was; with room it is deleted."""
    home = small_disk.home
    store = SqliteStore(home.database, home, RULES)
    session = (await store.create_session("claude")).id
    await store.commit(Commit(session, [say("here")]))
    await level(store, home)
    small_disk.fill()
    with pytest.raises(errors.DiskFull):
        await store.delete(session, "tester", "no room")
    assert (await store.session(session)).state == "live"
    assert os.listdir(home.trash) == []
    small_disk.make_room()
    assert (await store.delete(session, "tester", "room")).state == "deleted"
    await store.close()
    await nothing_to_heal(home)


@pytest.mark.parametrize("damage", ["missing", "torn"])
async def test_healing_mirrors_on_a_full_disk(small_disk: SmallDisk, damage: str) -> None:
    """What cannot be healed for want of room is told, opens all the same, and is healed once there is."""
    home = small_disk.home
    store = SqliteStore(home.database, home, RULES)
    session = (await store.create_session("claude")).id
    for _ in range(20):
        await store.commit(Commit(session, [say("x" * 3000)]))
    await store.close()
    path = home.mirror(session)
    if damage == "missing":
        os.unlink(path)
    else:
        os.truncate(path, os.path.getsize(path) - 100)
    before = None if damage == "missing" else Path(path).read_bytes()
    with apsw.Connection(home.database) as db:
        db.execute("pragma wal_checkpoint(full)")
    small_disk.fill(leave=8192)  # room for a small thing, not for the mirror
    healed, report = await open_healed(place(home), home, RULES)
    assert any("no room" in problem for problem in report.problems), report
    assert (await healed.session(session)).events == 21
    if before is not None:
        kept = [os.path.join(home.quarantine, n) for n in os.listdir(home.quarantine)] + [path]
        assert before in [Path(p).read_bytes() for p in kept if os.path.exists(p)], "the old bytes are gone"
    small_disk.make_room()
    again = await heal(healed, home, place(home))
    assert not again.problems, again
    await healed.close()
    check_mirrors(home, read_database(home.database))
    assert not [n for n in os.listdir(home.sessions) if durable_io.TEMP_MARK in n], "temporary files are left"
    await nothing_to_heal(home)


async def test_a_damaged_database_on_a_full_disk_stays_where_it_is(small_disk: SmallDisk) -> None:
    """Without room for quarantine nothing is moved and the error is clear; with room it is rebuilt."""
    home = small_disk.home
    store = SqliteStore(home.database, home, RULES)
    session = (await store.create_session("claude")).id
    await store.commit(Commit(session, [say("here")]))
    await store.close()
    with open(home.database, "r+b") as file:
        file.write(b"no database any more")
    before = Path(home.database).read_bytes()
    small_disk.fill()
    with pytest.raises(errors.DiskFull):
        await open_healed(place(home), home, RULES)
    assert Path(home.database).read_bytes() == before
    small_disk.make_room()
    healed, report = await open_healed(place(home), home, RULES)
    assert (await healed.session(session)).events == 2 and not report.problems
    await healed.close()
    await nothing_to_heal(home)


def test_a_limit_on_file_size_is_a_full_disk(tmp_path: Path) -> None:
    """Where the system refuses to let a file grow, the same holds (this needs no rights)."""
    done = subprocess.run(
        command("limited_child", tmp_path / "home"),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["refused"] > 0 and told["acked"] == told["stored"], told
