"""Files are created whole or not at all, never overwritten, and errors are told in our words."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import durable_io, errors
from holdfast.durable_io import Disk

OPERATIONS = ["open", "write", "sync", "link", "unlink", "sync_dir"]


class RaisingDisk(Disk):
    """Raises once, at the operation with that number."""

    def __init__(self, at: int, number: int = errno.ENOSPC):
        self.at = at
        self.number = number
        self.done: list[str] = []

    def step(self, name: str) -> None:
        self.done.append(name)
        if len(self.done) - 1 == self.at:
            raise OSError(self.number, os.strerror(self.number))


def _stepping(name: str) -> Callable[..., Any]:
    def method(self: RaisingDisk, *given: Any) -> Any:
        self.step(name)
        return getattr(Disk, name)(self, *given)

    return method


for _name in OPERATIONS:
    setattr(RaisingDisk, _name, _stepping(_name))


def test_a_created_file_is_whole_and_ours_alone(tmp_path: Path) -> None:
    path = tmp_path / "f"
    durable_io.create(str(path), [b"one ", b"two"])
    assert path.read_bytes() == b"one two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["f"]


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    path, other, link = tmp_path / "f", tmp_path / "other", tmp_path / "dangling"
    path.write_bytes(b"mine")
    other.write_bytes(b"other")
    link.symlink_to(tmp_path / "nowhere")
    for taken in (path, link):
        with pytest.raises(FileExistsError):
            durable_io.create(str(taken), [b"theirs"])
        with pytest.raises(FileExistsError):
            durable_io.move(str(other), str(taken))
    assert (path.read_bytes(), other.read_bytes()) == (b"mine", b"other")
    assert sorted(os.listdir(tmp_path)) == ["dangling", "f", "other"]


def test_of_many_that_create_one_file_one_does(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    won: list[int] = []

    def create(i: int) -> None:
        try:
            durable_io.create(path, [b"%d" % i] * 100)
            won.append(i)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=create, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and Path(path).read_bytes() == b"%d" % won[0] * 100
    assert os.listdir(tmp_path) == ["f"]


def test_temporary_names_are_unique_per_process_and_thread() -> None:
    names: list[str] = []
    threads = [
        threading.Thread(target=lambda: names.extend(durable_io.temp_name("/a/f") for _ in range(500)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 4000
    for name in names:
        assert os.path.dirname(name) == "/a" and str(os.getpid()) in name
        assert durable_io.is_temp(os.path.basename(name))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, durable_io.temp_name("/a/f").encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 1000).decode()
    os.close(read)
    os.close(write)
    assert str(child) in theirs and theirs not in names


def test_wherever_the_disk_fails_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for at in range(20):
        disk = RaisingDisk(at)
        try:
            durable_io.create(str(path), [b"one", b"two"], disk)
        except errors.DiskFull as problem:
            assert str(path) in problem.message
        else:
            assert at == len(disk.done), "no failure was swallowed"
            break
        if path.exists():
            assert path.read_bytes() == b"onetwo"
            path.unlink()
        for left in tmp_path.iterdir():  # only where the temporary name itself could not be removed
            assert disk.done[at] == "unlink" and durable_io.is_temp(left.name)
            left.unlink()
    assert disk.done == ["open", "write", "write", "sync", "link", "unlink", "sync_dir"]


def test_wherever_the_disk_fails_a_moved_file_keeps_a_name(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for at in range(20):
        old.write_bytes(b"x")
        new.unlink(missing_ok=True)
        disk = RaisingDisk(at, errno.EROFS)
        try:
            durable_io.move(str(old), str(new), disk)
        except errors.StoreReadOnly:
            assert old.exists() or new.read_bytes() == b"x"
        else:
            assert at == len(disk.done)
            break
    assert not old.exists() and new.read_bytes() == b"x"
    assert disk.done.index("sync_dir") < disk.done.index("unlink"), "a power cut leaves one of the names"


def test_what_the_system_says_is_told_in_our_words() -> None:
    words = {
        errno.ENOSPC: errors.DiskFull,
        errno.EDQUOT: errors.DiskFull,
        errno.EROFS: errors.StoreReadOnly,
        errno.EACCES: errors.StoreReadOnly,
        errno.EIO: OSError,
    }
    for number, ours in words.items():
        with pytest.raises(ours), durable_io.reported("/some/file"):
            raise OSError(number, os.strerror(number))


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c"
    durable_io.make_folder(str(path))
    durable_io.make_folder(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o700 == stat.S_IMODE((tmp_path / "a").stat().st_mode)


def test_only_old_temporary_files_are_swept(tmp_path: Path) -> None:
    old, young, file = (
        Path(durable_io.temp_name(str(tmp_path / "f"))),
        tmp_path / ".g.tmp-1",
        tmp_path / "x.tmp-1",
    )
    for path in (old, young, file):
        path.write_bytes(b"")
    long_ago = time.time() - durable_io.TEMP_OLD_S - 10
    for path in (old, file):
        os.utime(path, (long_ago, long_ago))
    assert durable_io.old_temps(str(tmp_path), time.time()) == [str(old)]
