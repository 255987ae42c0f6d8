"""A schema is brought up whole after a backup, or not at all; a newer one is not touched."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading
from pathlib import Path

import apsw
import pytest

from holdfast import errors
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery.heal import open_healed
from holdfast.store.open import open_store
from holdfast.store.sqlite import connection, migrations
from tests.crash.children import command, environment
from tests.crash.small_disk import SmallDisk, fingerprint
from tests.crash.support import RULES, TORTURE, essence, place, read_database, say, scratch

STEP = "create table extra (a integer); insert into extra select count(*) from log"
BROKEN = "create table extra (a integer); insert into no_such_table values (1)"


OPENINGS = max(10, TORTURE // 10)  # new stores, each made by several processes at once


@pytest.fixture
async def home(tmp_path: Path) -> Home:
    """A home with a store of the present version, closed."""
    return await fill(Home(str(tmp_path / "home")))


async def fill(home: Home) -> Home:
    """A session with some records."""
    store = await open_store(place(home), home, RULES)
    session = await store.create_session("claude", metadata={"a": 1})
    await store.commit(Commit(session.id, [say(f"event {i}") for i in range(50)]))
    await store.close()
    return home


NOW = migrations.newest()  # before a test adds a step


def version(path: str) -> int:
    """The schema's version in a file."""
    db = apsw.Connection(path)
    try:
        found = db.pragma("user_version")
        assert isinstance(found, int)
        return found
    finally:
        db.close()


def backups(home: Home) -> list[str]:
    """The copies that were taken."""
    if not os.path.isdir(home.backups):
        return []
    return sorted(os.path.join(home.backups, name) for name in os.listdir(home.backups))


@pytest.mark.parametrize("way", ["open_store", "open_healed"])
async def test_a_newer_schema_is_refused_and_left_alone(home: Home, way: str) -> None:
    """The error says so, with a code of its own, and no byte of the home changes."""
    db = apsw.Connection(home.database)
    if way == "open_healed":  # even what is only in its WAL stays there
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.execute(f"pragma user_version={migrations.newest() + 1}")
    db.close()
    before = fingerprint(home.path)
    with pytest.raises(errors.SchemaNewer) as caught:
        await (open_store if way == "open_store" else open_healed)(place(home), home, RULES)
    assert caught.value.code == "schema_newer"
    assert fingerprint(home.path) == before


async def test_a_backup_is_taken_before_a_step(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is whole, of the old version, for us alone; the store goes on in the new one."""
    old = {name: essence(seen) for name, seen in read_database(home.database).items()}
    monkeypatch.setattr(migrations, "STEPS", [*migrations.STEPS, STEP])
    store, report = await open_healed(place(home), home, RULES, deep=True)
    (session,) = old
    assert (await store.commit(Commit(session, [say("after")]))).seqs == range(52, 53)
    await store.close()
    assert not report.findings and version(home.database) == NOW + 1
    (copy,) = backups(home)
    assert version(copy) == NOW
    assert {name: essence(seen) for name, seen in read_database(copy).items()} == old
    assert stat.S_IMODE(os.stat(copy).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(home.backups).st_mode) == 0o700
    again = await open_store(place(home), home, RULES)
    await again.close()
    assert backups(home) == [copy], "a backup was taken without a migration"


async def test_a_step_that_fails_changes_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """All steps are undone, and the program that wrote the file still opens it."""
    old = read_database(home.database)
    monkeypatch.setattr(migrations, "STEPS", [*migrations.STEPS, STEP, BROKEN])
    with pytest.raises(errors.HoldfastError):
        await open_store(place(home), home, RULES)
    assert version(home.database) == NOW
    assert read_database(home.database) == old
    monkeypatch.undo()
    store, report = await open_healed(place(home), home, RULES, deep=True)
    assert not report.findings
    (session,) = old
    assert (await store.commit(Commit(session, [say("goes on")]))).seqs == range(52, 53)
    await store.close()


async def test_no_room_for_the_backup_means_no_migration(
    small_disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """disk_full, no half copy, the old file as it was; with room it is migrated."""
    home = await fill(small_disk.home)
    monkeypatch.setattr(migrations, "STEPS", [*migrations.STEPS, STEP])
    small_disk.fill(leave=8192)
    with pytest.raises(errors.DiskFull):
        await open_store(place(home), home, RULES)
    assert version(home.database) == NOW and backups(home) == []
    small_disk.make_room()
    store = await open_store(place(home), home, RULES)
    await store.close()
    assert version(home.database) == NOW + 1 and len(backups(home)) == 1


@pytest.mark.parametrize("start", ["old", "empty"])
async def test_processes_that_open_at_once_bring_it_up_once(tmp_path: Path, start: str) -> None:
    """Of many that start together each gets a working store; the step ran once, and no event is lost."""
    home = Home(str(tmp_path / "home"))
    if start == "old":
        await fill(home)
    _open_at_once(home, 4)
    assert version(home.database) == NOW + 1
    sessions = read_database(home.database)
    assert len(sessions) == 4 + (start == "old")
    if start == "old":
        db = apsw.Connection(home.database)
        assert db.execute("select a from extra").fetchall() == [(51,)]
        db.close()
        assert 1 <= len(backups(home)) <= 4


def test_a_new_store_is_made_by_many_at_once() -> None:
    """Processes that find no store make one together: none is refused, and each one's session is there."""
    with scratch() as folder:
        words = command("open_campaign", folder, OPENINGS)
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"rounds": OPENINGS}


def test_a_store_that_is_being_made_is_not_taken_for_anothers(tmp_path: Path) -> None:
    """Between two looks at a file another process may have made it ours; it is new then, not foreign."""
    path = str(tmp_path / "state.db")
    db, maker = apsw.Connection(path), apsw.Connection(path)
    looks: list[str] = []

    def look(cursor: apsw.Cursor, statement: str, bindings: object) -> bool:
        looks.append(statement)
        if len(looks) == 2:
            migrations.bring_up(maker, path, "epoch", str(tmp_path))
        return True

    db.exec_trace = look
    assert migrations.check(db, path) == 0
    assert len(looks) == 2, looks
    db.exec_trace = None
    assert migrations.check(db, path) == migrations.newest()
    db.close()
    maker.close()


def test_who_opens_a_new_file_waits_for_another_that_makes_it(tmp_path: Path) -> None:
    """SQLite itself does not wait for its turn to choose WAL; we do."""
    path = str(tmp_path / "state.db")
    maker = apsw.Connection(path)
    maker.execute("create table t (a)")
    maker.execute("begin immediate")
    done = threading.Timer(0.2, lambda: maker.execute("commit").close())
    done.start()
    db = connection.open_writer(path)
    assert db.pragma("journal_mode") == "wal"
    done.join()
    db.close()
    maker.close()


def _open_at_once(home: Home, count: int) -> None:
    words, pipe = command("migration_child", home.path, STEP), subprocess.PIPE
    children = [
        subprocess.Popen(words, env=environment(), stdin=pipe, stderr=pipe, text=True) for _ in range(count)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        _, told = child.communicate(timeout=60)
        assert child.returncode == 0, told
