"""On a read-only disk, or with read-only files, the store says so, changes nothing and can be read."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from holdfast import errors
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery.heal import open_healed
from holdfast.store import reads, sync_await
from holdfast.store.open import open_store
from holdfast.store.sqlite.connection import open_reader
from holdfast.store.sqlite.sql import SqliteSql
from tests.crash.children import command, environment
from tests.crash.small_disk import SmallDisk, fingerprint
from tests.crash.support import RULES, place, say

EVENTS = 20


async def fill(home: Home) -> str:
    """A session with some events; its id."""
    store = await open_store(place(home), home, RULES)
    session = (await store.create_session("claude", title="readable")).id
    await store.commit(Commit(session, [say(f"event {i}") for i in range(EVENTS)]))
    await store.close()
    return session


def check_readable(home: Home, session: str) -> None:
    """As the command line reads: the log is all there."""
    db = open_reader(home.database)
    try:
        rows = sync_await.run(reads.log(SqliteSql(db), session))
    finally:
        db.close()
    assert [row[0] for row in rows] == list(range(1, EVENTS + 2))


@pytest.mark.parametrize("way", ["open_store", "open_healed"])
@pytest.mark.parametrize("beside", ["kept", "gone"])
async def test_a_read_only_disk(small_disk: SmallDisk, way: str, beside: str) -> None:
    """store_read_only for a writer, nothing changed, and readers read, with or without -wal and -shm."""
    home = small_disk.home
    session = await fill(home)
    if beside == "gone":  # as after a backup was put in its place
        for ending in ("-wal", "-shm"):
            os.unlink(home.database + ending)
    before = fingerprint(home.path)
    with small_disk.read_only():
        with pytest.raises(errors.StoreReadOnly) as caught:
            await (open_store if way == "open_store" else open_healed)(place(home), home, RULES)
        assert (caught.value.code, caught.value.exit_status) == ("store_read_only", 8)
        assert fingerprint(home.path) == before
        check_readable(home, session)
    store, report = await open_healed(place(home), home, RULES)
    assert not report.findings, report
    assert (await store.commit(Commit(session, [say("again")]))).seqs[0] == EVENTS + 2
    await store.close()


async def test_no_home_can_be_made_on_a_read_only_disk(small_disk: SmallDisk) -> None:
    """A first start there is refused in the same words."""
    home = Home(os.path.join(small_disk.path, "other"))
    with small_disk.read_only(), pytest.raises(errors.StoreReadOnly):
        await open_healed(place(home), home, RULES)


@pytest.mark.parametrize("case", ["folder", "database", "everything"])
async def test_files_that_may_not_be_written(tmp_path: Path, case: str) -> None:
    """Another user, or files made read-only: the same code, nothing changed, readers read."""
    home = Home(str(tmp_path / "home"))
    session = await fill(home)
    if case == "folder":  # whose -wal and -shm are not there and cannot be made
        for ending in ("-wal", "-shm"):
            os.unlink(home.database + ending)
    paths = [home.path, *[os.path.join(p, n) for p, d, f in os.walk(home.path) for n in (*d, *f)]]
    before = fingerprint(home.path)
    for path in paths:
        frozen = {
            "folder": path == home.path,
            "database": os.path.basename(path).startswith("state.db"),
            "everything": True,
        }[case]
        is_folder = os.path.isdir(path)
        os.chmod(path, (0o555 if is_folder else 0o444) if frozen else (0o777 if is_folder else 0o666))
    _reach(tmp_path)
    done = _as_nobody(home, session)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["store_read_only", str(EVENTS + 1)]
    for path in paths:
        os.chmod(path, 0o700 if os.path.isdir(path) else 0o600)
    assert {k: v for k, v in fingerprint(home.path).items() if k in before} == before


def _as_nobody(home: Home, session: str) -> subprocess.CompletedProcess[str]:
    words = command("read_only_child", home.path, session)
    return subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)


def _reach(folder: Path) -> None:
    """Let another user come to this folder."""
    for parent in (folder, *folder.parents):
        mode = stat.S_IMODE(os.stat(parent).st_mode)
        if not mode & stat.S_IXOTH:
            os.chmod(parent, mode | stat.S_IXOTH)
