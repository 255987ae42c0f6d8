"""What a task leaves behind is kept whole, in less room, for a while."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path

import pytest

from holdfast import durable_io
from holdfast.spool import archive
from holdfast.spool.task_dir import Spool
from tests.crash.spool_support import content, running, until

OUT = b'{"a":1}\n' * 5000 + b"\0\xff the last line has no end"
ERR = b"warning\n" * 100
SENT = b"hello\n"
NAMES = ["exit", "launch.json", "sent.gz", "shim", "stderr.gz", "stdout.gz"]


class Cut(BaseException):
    """The process ends here."""


class CuttingDisk(durable_io.Disk):
    """A disk that lets so many operations through and then cuts, as SIGKILL does."""

    def __init__(self, left: int):
        self.left = left

    def _count(self) -> None:
        self.left -= 1
        if self.left == -1:
            self.strike()

    def strike(self) -> None:
        """What happens at that operation."""
        raise Cut

    def open(self, path: str, flags: int) -> int:
        self._count()
        return super().open(path, flags)

    def write(self, fd: int, data: bytes) -> None:
        self._count()
        super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._count()
        super().sync(fd)

    def link(self, old: str, new: str) -> None:
        self._count()
        super().link(old, new)

    def unlink(self, path: str) -> None:
        self._count()
        super().unlink(path)

    def sync_dir(self, path: str) -> None:
        self._count()
        super().sync_dir(path)


class OvertakenDisk(CuttingDisk):
    """A disk on which another process compresses the whole folder before that operation."""

    def __init__(self, left: int, spool: Spool):
        super().__init__(left)
        self._spool = spool

    def strike(self) -> None:
        archive.compress(self._spool)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """A folder as an ended task leaves it."""
    found = Spool(str(tmp_path / "tasks" / "t"))
    found.make({"n": 1})
    for path, data in [(found.stdout, OUT), (found.stderr, ERR), (found.sent, SENT)]:
        Path(path).write_bytes(data)
    for path in (found.shim_file, found.agent_file, found.relay_file):
        Path(path).write_bytes(b"1\n")
    Path(found.exit).write_bytes(b"0              \n")
    return found


def whole(spool: Spool) -> None:
    """Every stream has a whole copy."""
    for path, data in [(spool.stdout, OUT), (spool.stderr, ERR), (spool.sent, SENT)]:
        kept = content(path) if os.path.exists(path) else gzip.decompress(content(path + ".gz"))
        assert kept == data, path


def test_an_ended_task_is_compressed_and_can_still_be_read(spool: Spool) -> None:
    before = list(archive.lines(spool))
    archive.compress(spool)
    assert sorted(os.listdir(spool.path)) == NAMES
    whole(spool)
    with archive.open_stdout(spool) as file:
        assert file.read() == OUT
    assert list(archive.lines(spool)) == before
    assert before[-1].data == b"\0\xff the last line has no end"
    assert len(before) == 5001
    assert spool.stderr_tail(20) == "warning\nwarning\n"
    assert (spool.exit_status(), spool.launch()["n"]) == (0, 1)
    assert os.path.getsize(spool.stdout + ".gz") < len(OUT) / 20
    archive.compress(spool)
    assert sorted(os.listdir(spool.path)) == NAMES


def test_a_crash_at_any_point_leaves_a_whole_copy_and_the_next_run_ends_it(tmp_path: Path) -> None:
    points = 0
    while True:
        spool = Spool(str(tmp_path / str(points) / "t"))
        spool.make({})
        for path, data in [(spool.stdout, OUT), (spool.stderr, ERR), (spool.sent, SENT)]:
            Path(path).write_bytes(data)
        disk = CuttingDisk(points)
        try:
            archive.compress(spool, disk)
            break
        except Cut:
            pass
        whole(spool)
        archive.compress(spool)
        whole(spool)
        assert not os.path.exists(spool.stdout)
        points += 1
    assert points > 20


def test_two_processes_may_compress_one_folder_at_the_same_time(tmp_path: Path) -> None:
    points, struck = 0, True
    while struck:
        spool = Spool(str(tmp_path / str(points) / "t"))
        spool.make({})
        for path, data in [(spool.stdout, OUT), (spool.stderr, ERR), (spool.sent, SENT)]:
            Path(path).write_bytes(data)
        disk = OvertakenDisk(points, spool)
        archive.compress(spool, disk)
        struck = disk.left < 0
        whole(spool)
        assert sorted(os.listdir(spool.path)) == ["launch.json", "sent.gz", "stderr.gz", "stdout.gz"]
        points += 1
    assert points > 20


@pytest.mark.parametrize("broken", [False, True])
def test_of_two_launches_the_longer_output_is_read(spool: Spool, broken: bool) -> None:
    """A restore put the output of an earlier launch beside that of a later one; both are kept."""
    archive.compress(spool)
    if broken:
        Path(spool.stdout + ".gz").write_bytes(b"no gzip")
    Path(spool.stdout).write_bytes(b"the earlier launch")
    archive.unpack(spool)
    kept = [name for name in os.listdir(spool.path) if ".other-" in name]
    assert content(spool.stdout) == (b"the earlier launch" if broken else OUT)
    assert kept == ["stdout.gz.other-1" if broken else "stdout.other-1"]


def test_what_was_written_behind_a_copy_is_not_lost(spool: Spool) -> None:
    """A tool that outlived its agent still held the file when we were cut between copy and removal."""
    durable_io.create(spool.stdout + ".gz", [gzip.compress(OUT[:100])])
    archive.compress(spool)
    whole(spool)


def test_a_large_stdout_is_compressed_in_flat_memory(spool: Spool) -> None:
    with open(spool.stdout, "wb") as file:
        for _ in range(40):
            file.write(b'{"a":1}\n' * 131072)
    tracemalloc.start()
    try:
        archive.compress(spool)
        count = sum(1 for _ in zip(range(1000), archive.lines(spool), strict=False))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 1000
    assert peak < 16 << 20


def test_a_prevented_task_stays_prevented_when_compressed(tmp_path: Path) -> None:
    with running(str(tmp_path)) as run:
        run.spool.make({})
        assert run.spool.prevent()
        archive.compress(run.spool)
        assert not run.spool.prevent()


def test_only_what_was_compressed_long_ago_expires(spool: Spool) -> None:
    tasks = os.path.dirname(spool.path)
    assert archive.expired(os.path.join(tasks, "none"), 0.0, 0.0) == []
    Path(tasks, "a file").write_bytes(b"")
    os.symlink(spool.path, os.path.join(tasks, "a link"))
    now = os.stat(spool.stdout).st_mtime + 1e6
    assert archive.expired(tasks, now, 10.0) == [], "it is not compressed yet"
    assert not archive.remove(spool.path)
    archive.compress(spool)
    at = os.stat(spool.stdout + ".gz").st_mtime
    assert archive.expired(tasks, at + 9, 10.0) == []
    assert archive.expired(tasks, at + 11, 10.0) == [spool.path]
    Path(spool.keep).write_bytes(b"")
    assert archive.expired(tasks, at + 11, 10.0) == []
    assert not archive.remove(spool.path)
    assert sorted(os.listdir(spool.path)) == sorted([*NAMES, "keep"])
    os.unlink(spool.keep)
    assert archive.remove(spool.path)
    assert not os.path.exists(spool.path)
    assert archive.remove(spool.path)


def test_a_removal_that_was_cut_short_is_ended_later(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = os.path.dirname(spool.path)
    archive.compress(spool)
    later = os.stat(spool.path).st_mtime + 100
    real = os.unlink
    gone: list[str] = []

    def one(path: str) -> None:
        if gone:
            raise Cut
        gone.append(path)
        real(path)

    def none(path: str) -> None:
        raise Cut

    def worst(path: str) -> list[os.DirEntry[str]]:
        """What the folder is known by comes first, as it may."""
        with scan(path) as entries:
            return sorted(entries, key=lambda entry: entry.name != "stdout.gz")

    scan = os.scandir
    monkeypatch.setattr(os, "scandir", worst)
    for _ in NAMES[1:]:
        gone.clear()
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", one)
            with pytest.raises(Cut):
                archive.remove(spool.path)
        assert archive.expired(tasks, later, 10.0) == [spool.path]
    assert os.listdir(spool.path) == ["stdout.gz"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", none)
        with pytest.raises(Cut):
            archive.remove(spool.path)
    assert os.listdir(spool.path) == []
    assert archive.expired(tasks, os.stat(spool.path).st_mtime + 11, 10.0) == [spool.path]
    assert archive.remove(spool.path)


def test_a_stderr_that_grows_without_end_takes_bounded_room(tmp_path: Path) -> None:
    """While it is written to; the end stays, byte for byte, and what is said later follows it."""
    limit = 1 << 16
    with running(str(tmp_path)) as run:
        program = (
            "import sys; sys.stderr.write(''.join(f'{n:09d}\\n' for n in range(200000))); print(1); input()"
        )
        spool = run.python(program)
        until(lambda: content(spool.stdout) == b"1\n", "the agent to have said it")
        if not archive.bound_stderr(spool, limit):
            pytest.skip("this file system cannot free a part of a file")
        assert os.stat(spool.stderr).st_blocks * 512 <= limit + 2 * 4096
        assert os.path.getsize(spool.stderr) == 2_000_000
        expected = b"".join(b"%09d\n" % n for n in range(200000))
        assert content(spool.stderr)[-limit:] == expected[-limit:]
        assert archive.bound_stderr(spool, limit) == 0, "nothing more to free"
        with open(spool.stderr, "ab") as file:
            file.write(b"later\n")
        assert spool.stderr_tail(16) == "000199999\nlater\n"[-16:]
        kept = content(spool.stderr).lstrip(b"\0")
        assert len(kept) >= limit
        archive.compress(spool)
        assert gzip.decompress(content(spool.stderr + ".gz")).lstrip(b"\0") == kept
        assert len(gzip.decompress(content(spool.stderr + ".gz"))) < limit + 3 * 4096, "the hole is not kept"


def test_a_small_stderr_is_left_alone(spool: Spool) -> None:
    assert archive.bound_stderr(spool, 10) == 0
    assert content(spool.stderr) == ERR
    os.unlink(spool.stderr)
    assert archive.bound_stderr(spool, 10) == 0
