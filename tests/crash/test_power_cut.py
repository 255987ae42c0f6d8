"""A power cut between any two writes loses nothing that was acknowledged, and leaves a store that opens.

A sample of the states by default; HOLDFAST_TORTURE opens every one of them.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable

import apsw
import pytest

from holdfast import durable_io
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery.heal import open_healed
from holdfast.store.mirror.writer import MirrorWriter
from holdfast.store.sqlite.connection import open_writer
from holdfast.store.sqlite.store import SqliteStore
from tests.crash import disk_model, heal_campaign
from tests.crash.disk_model import Sync, SyncNames, Write
from tests.crash.disk_recorder import recording
from tests.crash.power_cut import Explored, against, explore, prepared, record_workload
from tests.crash.power_workload import Workload, check_image, state
from tests.crash.support import RULES, TORTURE, place, say, scratch

SHARDS = 4 if TORTURE else 2
ROUNDS = 24  # calls of a workload, about
MODES = (*disk_model.MODES, *["random"] * (10 if TORTURE else 3))  # images of each moment
MOST = 0 if TORTURE else 200  # states of one workload
MOST_HEALING = 0 if TORTURE else 40


def judge(explored: Explored, least: int) -> None:
    """No state may have failed, and there must have been some."""
    assert not explored.failures, f"{len(explored.failures)} of {explored.states}: " + "\n".join(
        explored.failures[:5]
    )
    assert explored.states >= least, f"only {explored.states} states were opened"


@pytest.mark.parametrize("shard", range(SHARDS))
async def test_no_acknowledged_call_is_lost(shard: int) -> None:
    """Every image opens; each session is as it was acknowledged or one whole call further, in both copies."""
    seed = int.from_bytes(os.urandom(4), "big") if TORTURE else shard
    with prepared() as root:
        recorder, states = await record_workload(root, seed, ROUNDS)
        kinds = Counter(type(operation) for operation in recorder.log)
        assert min(kinds[Write], kinds[Sync], kinds[SyncNames]) > 20, kinds
        judge(await explore(recorder, against(states), seed, MODES, MOST), least=200)


async def test_a_first_start_that_is_cut_short() -> None:
    """Whatever is left of a home that was just being made, the next start makes a whole one."""
    with prepared() as root:
        with recording(root) as recorder:
            home = Home(os.path.join(root, "home"))
            home.make()
            await SqliteStore(home.database, home, RULES).close()
        judge(await explore(recorder, against([{}]), 1, MODES), least=60)


async def test_a_delete_and_a_restore_that_are_cut_short() -> None:
    """At every moment the session is all there or all in the trash; once acknowledged, it stays so."""
    with prepared() as root:
        home = Home(os.path.join(root, "home"))
        home.make()
        store = SqliteStore(home.database, home, RULES)
        session = (await store.create_session("claude")).id
        await store.commit(Commit(session, [say(f"event {i}") for i in range(5)]))
        await store.close()
        with recording(root) as recorder:
            store = SqliteStore(home.database, home, RULES)
            work = Workload(store, home, recorder.ack, random.Random(1))
            work.states = [state(home)]
            for _ in range(2):
                await work.call(store.delete(session, "tester", "cut short"))
                await work.call(store.restore(session, "tester"))
            await work.call(store.delete(session, "tester", "for good"))
            await store.close()
        judge(await explore(recorder, against(work.states), 1, MODES), least=150)


@pytest.mark.parametrize("case", [*heal_campaign.CASES, "nothing"])
async def test_healing_is_safe_from_power_cuts(case: str) -> None:
    """A power cut at any moment of healing loses nothing: the next start comes to the same sessions."""
    with scratch() as build, prepared() as root:
        first = Home(os.path.join(build, "home"))
        first.make()
        await heal_campaign.build(first, sessions=4, commits=3)
        before = heal_campaign.state(first)
        shutil.copytree(first.path, os.path.join(root, "home"))
        home = Home(os.path.join(root, "home"))
        if case in heal_campaign.CASES:
            heal_campaign.CASES[case](home, random.Random(3))
        with recording(root) as recorder:
            store, _ = await open_healed(place(home), home, RULES)
            await store.close()

        async def check(home: Home, acked: int) -> None:
            await check_image(home, before, before)

        judge(await explore(recorder, check, 3, MODES, MOST_HEALING), least=2)


async def test_a_mirror_is_trusted_only_when_it_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before its mirrors were synced, healed, then cut off: no mirror is taken for level unread."""
    with prepared() as root, recording(root) as recorder:
        home = Home(os.path.join(root, "home"))
        home.make()
        store = SqliteStore(home.database, home, RULES)
        work = Workload(store, home, recorder.ack, random.Random(1))
        with monkeypatch.context() as patch:
            patch.setattr(MirrorWriter, "seal_idle", lambda self, everything=False: [])  # as after a kill
            await work.run(4)
            await store.close()
        start = len(recorder.log)
        healed, report = await open_healed(place(home), home, RULES)
        assert report.compared > 0, report
        await healed.close()
    judge(await explore(recorder, against(work.states), 1, MODES, 0, start), least=10)


# --- the explorer itself can fail


async def _failures(opener: Callable[[Home], SqliteStore], mode: str) -> list[str]:
    with prepared() as root:
        recorder, states = await record_workload(root, 1, ROUNDS, opener)
        return (await explore(recorder, against(states), 1, [mode])).failures


async def test_the_explorer_sees_a_commit_that_was_not_synced() -> None:
    """With synchronous=NORMAL acknowledged commits are lost, and the explorer says so."""

    def without_sync(path: str) -> apsw.Connection:
        db = open_writer(path)
        db.execute("pragma synchronous=normal")
        return db

    failures = await _failures(
        lambda home: SqliteStore(home.database, home, RULES, connect=without_sync), "nothing"
    )
    assert any("lost: " in failure for failure in failures), failures


async def test_the_explorer_sees_a_file_that_was_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """With tombstones whose content is never synced some image is wrong, and the explorer says so."""

    def forgetful(home: Home) -> SqliteStore:
        monkeypatch.setattr(durable_io.DISK, "sync", lambda fd: None)
        return SqliteStore(home.database, home, RULES)

    assert await _failures(forgetful, "names")


async def test_the_explorer_sees_names_that_were_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """With folders whose names are never synced acknowledged sessions are lost, and the explorer says so."""
    with prepared() as root:
        with recording(root) as recorder:
            monkeypatch.setattr(durable_io.DISK, "sync_dir", lambda path: None)
            home = Home(os.path.join(root, "home"))
            home.make()
            store = SqliteStore(home.database, home, RULES)
            work = Workload(store, home, recorder.ack, random.Random(1))
            await work.run(4)
            await store.close()
            monkeypatch.undo()
        explored = await explore(recorder, against(work.states), 1, ["nothing"])
    assert any("lost" in failure for failure in explored.failures), explored.failures
