"""A waiter wakes when its folder changes, with inotify and without."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.spool.watch import Watch


@pytest.fixture(params=["inotify", "polling"])
async def watch(request: pytest.FixtureRequest) -> AsyncIterator[Watch]:
    found = Watch(polling=request.param == "polling")
    yield found
    found.close()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "stdout").write_bytes(b"")
    return str(tmp_path)


def append(folder: str) -> None:
    with open(os.path.join(folder, "stdout"), "ab") as file:
        file.write(b"x\n")


def end(folder: str) -> None:
    with open(os.path.join(folder, "exit.part"), "wb") as file:
        file.write(b"0\n")
    os.rename(os.path.join(folder, "exit.part"), os.path.join(folder, "exit"))


@pytest.mark.parametrize("change", [append, end])
async def test_a_change_wakes_the_waiter_soon(watch: Watch, folder: str, change: object) -> None:
    assert callable(change)
    handle = watch.add(folder)
    asyncio.get_running_loop().call_later(0.03, change, folder)
    began = time.monotonic()
    assert await handle.wait(5.0)
    assert time.monotonic() - began < 2


async def test_without_a_change_the_time_runs_out(watch: Watch, folder: str) -> None:
    began = time.monotonic()
    assert not await watch.add(folder).wait(0.05)
    assert 0.04 < time.monotonic() - began < 2
    assert not await watch.add(folder).wait(0.0)


async def test_a_change_between_two_waits_is_not_missed(watch: Watch, folder: str) -> None:
    handle = watch.add(folder)
    for _ in range(3):
        append(folder)
        assert await handle.wait(5.0)
    assert not await handle.wait(0.05)


async def test_each_folder_wakes_its_own_waiters(watch: Watch, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stdout").write_bytes(b"")
    one, two, same = [watch.add(str(tmp_path / name)) for name in ("a", "b", "a")]
    append(one.path)
    assert [await handle.wait(0.1) for handle in (one, two, same)] == [True, False, True]
    one.close()
    one.close()
    append(same.path)
    assert await same.wait(5.0), "its twin's end must not end it"


async def test_closing_lets_waiters_go(watch: Watch, folder: str) -> None:
    waiting = asyncio.create_task(watch.add(folder).wait(5.0))
    await asyncio.sleep(0.01)
    watch.close()
    assert await asyncio.wait_for(waiting, 2)
    watch.close()


async def test_a_folder_that_is_not_there_is_said_so(watch: Watch, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        watch.add(str(tmp_path / "none"))


async def test_a_cancelled_wait_costs_no_change(watch: Watch, folder: str) -> None:
    handle = watch.add(folder)
    waiting = asyncio.create_task(handle.wait(5.0))
    await asyncio.sleep(0.01)
    waiting.cancel()
    append(folder)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await handle.wait(5.0)


class _RunOut:
    """A C library whose inotify gives a certain error."""

    def __init__(self, instances: int, watches: int):
        self._instances, self._watches = instances, watches
        self._real = ctypes.CDLL(None, use_errno=True)

    def inotify_init1(self, flags: int) -> int:
        if not self._instances:
            return int(self._real.inotify_init1(flags))
        ctypes.set_errno(self._instances)
        return -1

    def inotify_add_watch(self, fd: int, path: bytes, mask: int) -> int:
        ctypes.set_errno(self._watches)
        return -1


@pytest.mark.parametrize("instances, watches", [(errno.EMFILE, 0), (0, errno.ENOSPC), (errno.ENOSYS, 0)])
async def test_where_inotify_has_run_out_it_looks_often(
    folder: str, monkeypatch: pytest.MonkeyPatch, instances: int, watches: int
) -> None:
    library = _RunOut(instances, watches)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: library)
    watch = Watch()
    try:
        handle = watch.add(folder)
        assert handle.number is None
        asyncio.get_running_loop().call_later(0.03, append, folder)
        assert await handle.wait(5.0)
    finally:
        watch.close()


async def test_a_flood_that_overflows_the_queue_wakes_all(tmp_path: Path) -> None:
    """The kernel keeps 16384 events as a rule; then it says only that there were more."""
    names = ("a", "b")
    for name in names:
        (tmp_path / name).mkdir()
    watch = Watch()
    try:
        handles = [watch.add(str(tmp_path / name)) for name in names]
        with open("/proc/sys/fs/inotify/max_queued_events") as file:
            limit = int(file.read())
        if limit > 20_000:
            pytest.skip("this kernel's queue is too long to fill in a test")
        one, two = (os.open(tmp_path / "a" / name, os.O_WRONLY | os.O_CREAT) for name in ("x", "y"))
        for _ in range(limit // 2 + 10):  # two files in turn, for the same event twice is kept once
            os.write(one, b"x")
            os.write(two, b"y")
        os.close(one)
        os.close(two)
        append(str(tmp_path / "b"))
        assert [await handle.wait(5.0) for handle in handles] == [True, True]
    finally:
        watch.close()
