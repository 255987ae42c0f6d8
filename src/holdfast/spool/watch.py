"""Waking up when a task's folder changes: by inotify, or by looking often where that cannot be had."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
import sys
from contextlib import suppress

LOOK_S = 0.02

_IN_MODIFY, _IN_MOVED_TO, _IN_CREATE = 0x2, 0x80, 0x100
_IN_Q_OVERFLOW = 0x4000
_EVENT = struct.Struct("iIII")
_RUN_OUT = (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOMEM, errno.ENOSYS, errno.EPERM)


class Handle:
    """One folder that is watched; read it once after this was made: what came before wakes nobody."""

    def __init__(self, path: str, watch: Watch, number: int | None):
        self.path = path
        self.number = number  # of its inotify watch; None: looked at
        self._watch = watch
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._seen = self._look()

    async def wait(self, timeout_s: float) -> bool:
        """Until something changed since the last wait, or the time is over; whether it changed."""
        deadline = self._loop.time() + timeout_s
        while not self._changed.is_set() and not self._moved():
            if self._loop.time() >= deadline:
                return False
            until = deadline if self.number is not None else min(deadline, self._loop.time() + LOOK_S)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._changed.wait()
        self._changed.clear()
        return True

    def wake(self) -> None:
        """Let the waiter go on, or the next one at once."""
        self._changed.set()

    def close(self) -> None:
        """Stop watching this folder."""
        self._watch.forget(self)

    def _moved(self) -> bool:
        if self.number is not None:
            return False
        before, self._seen = self._seen, self._look()
        return before != self._seen

    def _look(self) -> tuple[int, int, bool] | None:
        """What changes when an agent says something or ends."""
        try:
            out = os.stat(os.path.join(self.path, "stdout"))
        except FileNotFoundError:
            return None
        return out.st_size, out.st_mtime_ns, os.path.exists(os.path.join(self.path, "exit"))


class Watch:
    """All folders that one event loop waits for, on one inotify instance; made and used inside that loop."""

    def __init__(self, polling: bool = False):
        self._loop = asyncio.get_running_loop()
        self._handles: dict[int | None, list[Handle]] = {}  # by number; all that are looked at under None
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int | None = None
        if not polling and sys.platform == "linux":
            fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if fd >= 0:
                self._fd = fd
                self._loop.add_reader(fd, self._read)
            elif ctypes.get_errno() not in _RUN_OUT:
                raise _error("inotify")

    def add(self, path: str) -> Handle:
        """Watch a folder; FileNotFoundError if there is none."""
        handle = Handle(path, self, self._number(path))
        self._handles.setdefault(handle.number, []).append(handle)
        return handle

    def forget(self, handle: Handle) -> None:
        """Stop watching for one handle; others of the same folder go on."""
        number = handle.number
        if handle not in self._handles.get(number, ()):
            return
        self._handles[number].remove(handle)
        if not self._handles[number]:
            del self._handles[number]
            if self._fd is not None and number is not None:
                self._libc.inotify_rm_watch(self._fd, number)  # fails if the folder is gone: as well

    def close(self) -> None:
        """Stop watching and wake every waiter."""
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None
        self._wake_all()
        self._handles.clear()

    def _number(self, path: str) -> int | None:
        if self._fd is None:
            os.stat(path)
            return None
        mask = _IN_MODIFY | _IN_MOVED_TO | _IN_CREATE
        number: int = self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask)
        if number >= 0:
            return number
        if ctypes.get_errno() in _RUN_OUT:
            return None
        raise _error(path)

    def _read(self) -> None:
        if self._fd is None:
            return
        try:
            data = os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            number, mask, _, size = _EVENT.unpack_from(data, at)
            at += _EVENT.size + size
            if mask & _IN_Q_OVERFLOW:
                self._wake_all()
            for handle in self._handles.get(number, ()):
                handle.wake()

    def _wake_all(self) -> None:
        for handles in self._handles.values():
            for handle in handles:
                handle.wake()


def _error(path: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)
