"""Copies of a database that another process writes: each is one committed state, the original untouched."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from holdfast import errors
from holdfast.transcripts import sqlite_snapshot as module
from holdfast.transcripts.sqlite_snapshot import SnapshotCache, open_copy, quick_check, snapshot

# Money moves between 50 rows; each transaction touches many pages, its number is in `n`, the sum stays.
WRITER = """
import random, sys, time, apsw
path, mode, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
db = apsw.Connection(path)
db.set_busy_timeout(5000)
print("ready", flush=True)
end = time.monotonic() + seconds
n = db.execute("select max(n) from t").fetchone()[0]
while time.monotonic() < end:
    n += 1
    with db:
        a, b = random.sample(range(50), 2)
        db.execute("update t set money = money - 7 where id = ?", (a,))
        db.execute("update t set n = ?, pad = randomblob(1500)", (n,))
        db.execute("update t set money = money + 7 where id = ?", (b,))
    if mode != "delete" and random.random() < 0.3:
        db.execute(f"pragma wal_checkpoint({random.choice(['passive', 'restart', 'truncate'])})").fetchall()
    time.sleep(random.choice([0, 0.001, 0.005, 0.03]))
print(n, flush=True)
"""


def make(path: str, mode: str) -> None:
    db = apsw.Connection(path)
    db.execute(f"pragma journal_mode = {mode}").fetchall()
    db.execute("pragma wal_autocheckpoint = 0").fetchall()
    with db:
        db.execute("create table t(id integer primary key, money int, n int, pad blob)")
        for i in range(50):
            db.execute("insert into t values(?, 100, 0, randomblob(1500))", (i,))
    db.close()


@contextmanager
def writer(path: str, mode: str, seconds: float) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, path, mode, str(seconds)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def state(copy: str) -> tuple[int, int]:
    """The transaction that the copy shows; an assertion if it is none."""
    db = open_copy(copy)
    try:
        assert quick_check(db) == []
        ((total, low, high),) = db.execute("select sum(money), min(n), max(n) from t").fetchall()
        assert low == high, "a copy of two states at once"
        assert isinstance(total, int) and isinstance(low, int)
        return total, low
    finally:
        db.close()


@pytest.mark.parametrize("mode", ["wal", "delete", "truncate", "persist"])
def test_every_copy_of_a_busy_database_is_one_state(tmp_path: Path, mode: str) -> None:
    path = str(tmp_path / "busy.db")
    make(path, mode)
    seen = []
    busy = 0
    with writer(path, "wal" if mode == "wal" else "delete", 3.0) as process:
        while process.poll() is None:
            try:
                with snapshot(path) as copy:
                    total, n = state(copy)
            except errors.StoreBusy:
                busy += 1
                continue
            assert total == 5000
            seen.append(n)
    assert len(seen) > 10 and len(set(seen)) > 5 and busy == 0
    assert seen == sorted(seen), "a later copy showed an older state"
    with snapshot(path) as copy:
        assert state(copy)[0] == 5000


def test_the_newest_commit_is_in_the_copy(tmp_path: Path) -> None:
    path = str(tmp_path / "hot.db")
    make(path, "wal")
    db = apsw.Connection(path)
    db.execute("pragma wal_autocheckpoint = 0").fetchall()
    for n in range(1, 20):
        db.execute("update t set n = ?", (n,))
        with snapshot(path) as copy:
            assert state(copy) == (5000, n)
    db.close()


def facts(folder: str) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name in sorted(os.listdir(folder)):
        what = os.stat(os.path.join(folder, name))
        found[name] = (what.st_size, what.st_mtime_ns, what.st_atime_ns, what.st_ctime_ns, what.st_ino)
    return found


@pytest.mark.parametrize("left", ["closed", "wal", "wal+shm", "journal"])
def test_nothing_of_the_original_changes(tmp_path: Path, left: str) -> None:
    path = left_behind(str(tmp_path), left)
    for name in os.listdir(tmp_path):
        os.utime(tmp_path / name, (1_000_000_000, 1_000_000_001))  # old: relatime would write a new atime
    before, content = facts(str(tmp_path)), {n: (tmp_path / n).read_bytes() for n in os.listdir(tmp_path)}
    for name in os.listdir(tmp_path):
        os.utime(tmp_path / name, (1_000_000_000, 1_000_000_001))
    before = facts(str(tmp_path))
    with snapshot(path) as copy:
        assert os.path.dirname(copy) != str(tmp_path)
        assert state(copy)[0] == 5000
        folder = os.path.dirname(copy)
        assert os.stat(folder).st_mode & 0o077 == 0 and os.stat(copy).st_mode & 0o077 == 0
    assert not os.path.exists(folder)
    assert facts(str(tmp_path)) == before
    assert {n: (tmp_path / n).read_bytes() for n in os.listdir(tmp_path)} == content


def left_behind(folder: str, left: str) -> str:
    """A database as a killed process leaves it: with a WAL, or with a hot rollback journal."""
    path = os.path.join(folder, "a.db")
    make(path, "delete" if left == "journal" else "wal")
    if left == "closed":
        return path
    if left == "journal":
        script = (
            "import apsw, os, sys\n"
            "db = apsw.Connection(sys.argv[1]); db.execute('pragma cache_size = 5')\n"
            "db.execute('begin'); db.execute(\"update t set n = 99, money = 1, pad = randomblob(1500)\")\n"
            "db.cache_flush(); os._exit(0)\n"
        )
        subprocess.run([sys.executable, "-c", script, path], check=True)
        assert os.path.getsize(path + "-journal") > 0
        return path
    script = (
        "import apsw, os, sys\n"
        "db = apsw.Connection(sys.argv[1]); db.execute('update t set n = 5'); os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, path], check=True)
    assert os.path.getsize(path + "-wal") > 0
    if left == "wal":
        os.unlink(path + "-shm")
    return path


def test_a_hot_journal_is_rolled_back_in_the_copy_only(tmp_path: Path) -> None:
    path = left_behind(str(tmp_path), "journal")
    with snapshot(path) as copy:
        assert state(copy) == (5000, 0)
    assert os.path.getsize(path + "-journal") > 0


def test_the_wal_of_a_linked_database_is_found(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path = left_behind(str(tmp_path / "real"), "wal")
    link = str(tmp_path / "link.db")
    os.symlink(path, link)
    with snapshot(link) as copy:
        assert state(copy) == (5000, 5)


def test_a_copy_cannot_be_written_through(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    make(path, "wal")
    with snapshot(path) as copy:
        db = open_copy(copy)
        with pytest.raises(apsw.ReadOnlyError):
            db.execute("update t set n = 1")
        db.close()


def test_what_is_no_database_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), snapshot(str(tmp_path / "none.db")):
        pass
    with pytest.raises(OSError), snapshot(str(tmp_path)):
        pass
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError), snapshot(str(tmp_path / "fifo")):
        pass


def test_garbage_is_copied_and_refused_by_sqlite(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"no database at all " * 100)
    with snapshot(str(tmp_path / "a.db")) as copy:
        with open(copy, "rb") as file:
            assert file.read() == b"no database at all " * 100
        with pytest.raises(apsw.NotADBError):
            open_copy(copy).execute("select 1 from sqlite_schema")


def test_quick_check_says_what_is_wrong(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    make(path, "delete")
    data = bytearray((tmp_path / "a.db").read_bytes())
    data[4096 : 4096 + 200] = b"\xff" * 200
    (tmp_path / "a.db").write_bytes(data)
    with snapshot(path) as copy:
        db = open_copy(copy)
        assert quick_check(db)
        db.close()


def test_one_that_is_never_at_rest_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "a.db")
    make(path, "delete")
    real = module.copy_bytes

    def with_a_write(source: int, to: int) -> bool:
        done = real(source, to)
        with open(path, "r+b") as file:
            file.seek(8000)
            file.write(os.urandom(8))
        return done

    monkeypatch.setattr(module, "copy_bytes", with_a_write)
    monkeypatch.setattr(module, "TRIES", 5)
    with pytest.raises(errors.StoreBusy), snapshot(path):
        pass


@pytest.mark.parametrize("what", ["database", "wal restart", "wal cut"])
def test_a_write_that_leaves_the_mtime_as_it_was_is_still_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = str(tmp_path / "a.db")
    make(path, "wal")
    db = apsw.Connection(path)
    db.execute("pragma wal_autocheckpoint = 0").fetchall()
    db.execute("update t set n = 1")
    real = module.copy_bytes
    calls: list[int] = []

    def racing(source: int, to: int) -> bool:
        done = real(source, to)
        calls.append(1)
        if len(calls) == 1:  # the database file has just been copied
            before = os.stat(path)
            if what == "database":
                db.execute("update t set n = 2, pad = randomblob(1500)")
                db.execute("pragma wal_checkpoint(passive)").fetchall()
            elif what == "wal restart":
                db.execute("pragma wal_checkpoint(restart)").fetchall()
                db.execute("update t set n = 2, pad = randomblob(1500) where id % 2")
                db.execute("update t set n = 2, pad = randomblob(1500)")
            else:
                db.execute("pragma wal_checkpoint(truncate)").fetchall()
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        return done

    monkeypatch.setattr(module, "copy_bytes", racing)
    os.utime(path)  # just now: only then can a further write leave the same time
    with snapshot(path) as copy:
        assert state(copy) == (5000, 1 if what == "wal cut" else 2)
    assert len(calls) > 2
    db.close()


def test_a_wal_that_is_begun_anew_while_it_is_copied_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.db")
    make(path, "wal")
    db = apsw.Connection(path)
    db.execute("pragma wal_autocheckpoint = 0").fetchall()
    db.execute("update t set n = 1, pad = randomblob(1500)")
    first = os.path.getsize(path + "-wal")
    db.execute("update t set n = 2, pad = randomblob(1500)")
    db.execute("pragma wal_checkpoint(passive)").fetchall()
    for name in os.listdir(tmp_path):
        os.utime(tmp_path / name, (1_000_000_000, 1_000_000_000))
    real = module.copy_bytes
    calls: list[int] = []

    def racing(source: int, to: int) -> bool:
        done = real(source, to)
        calls.append(1)
        if len(calls) == 2:  # of the WAL only the beginning was read when a writer began it anew
            os.ftruncate(to, first)
            db.execute("update t set n = 3")
        return done

    monkeypatch.setattr(module, "copy_bytes", racing)
    with snapshot(path) as copy:
        assert state(copy) == (5000, 3)
    assert len(calls) == 4
    db.close()


def test_a_checkpoint_between_is_seen_by_the_mtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "a.db")
    make(path, "wal")
    db = apsw.Connection(path)
    db.execute("update t set n = 1, pad = randomblob(1500)")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    real = module.copy_bytes
    calls: list[int] = []

    def racing(source: int, to: int) -> bool:
        if len(calls) == 1:
            db.execute("update t set n = 2, pad = randomblob(1500) where id < 25")
            db.execute("pragma wal_checkpoint(passive)").fetchall()
            db.execute("update t set n = 2, pad = randomblob(1500)")
        calls.append(1)
        return real(source, to)

    monkeypatch.setattr(module, "copy_bytes", racing)
    with snapshot(path) as copy:
        assert state(copy) == (5000, 2)
    assert len(calls) == 4
    db.close()


def test_one_copy_serves_while_nothing_changes_and_goes_when_nobody_holds_it(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    make(path, "wal")
    kept = SnapshotCache()
    first = kept.copy(path)
    assert kept.copy(path) is first
    db = apsw.Connection(path)
    db.execute("update t set n = 3")
    second = kept.copy(path)
    assert second is not first and state(second.path) == (5000, 3) and state(first.path) == (5000, 0)
    gone = first.path
    del first
    assert not os.path.exists(gone) and os.path.exists(second.path)
    db.close()


@pytest.mark.parametrize("kernel", [True, False])
def test_large_files_are_copied_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool) -> None:
    if not kernel:
        monkeypatch.setattr(module, "_in_kernel", lambda source, to, size: 0)
        monkeypatch.setattr(module, "_FICLONE", 0)
    data = os.urandom(3 * module.BLOCK + 12345)
    (tmp_path / "big").write_bytes(data)
    began = time.monotonic()
    with snapshot(str(tmp_path / "big")) as copy, open(copy, "rb") as file:
        assert file.read() == data
    assert time.monotonic() - began < 5
