"""Processes that are forked, listened to and killed; for a parent that has no threads of its own."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

DEADLINE_S = 120.0  # nothing that is waited for here may take longer


class Child(NamedTuple):
    """A forked process and the pipe on which it tells what it has done."""

    pid: int
    pipe: int

    def wait_for_word(self, timeout: float = DEADLINE_S) -> None:
        """Until the child says its first word, or ends."""
        ready, _, _ = select.select([self.pipe], [], [], timeout)
        if not ready:
            os.kill(self.pid, signal.SIGKILL)
            raise AssertionError(f"no word from the child: {self.rest()!r}")

    def kill(self) -> bytes:
        """SIGKILL; all that it had said by then."""
        os.kill(self.pid, signal.SIGKILL)
        return self.rest()

    def rest(self) -> bytes:
        """All that is said until the child has ended, which is then no more."""
        said = b""
        while piece := os.read(self.pipe, 1 << 16):
            said += piece
        os.close(self.pipe)
        _, self_status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(self_status)
        if code not in (0, -signal.SIGKILL):
            raise AssertionError(f"the child ended with {code}: {said.decode(errors='replace')}")
        return said


def start(work: Callable[[Callable[[str], None]], None]) -> Child:
    """Fork a child that runs `work(say)`; what it says comes line by line, each in one write."""
    out, into = os.pipe()
    pid = os.fork()
    if pid:
        os.close(into)
        return Child(pid, out)
    status = 1
    try:
        os.close(out)
        work(lambda line: void(os.write(into, line.encode() + b"\n")))
        status = 0
    except BaseException:  # noqa: BLE001 - told to the parent
        with contextlib.suppress(OSError):
            os.write(into, traceback.format_exc().encode())
        status = 7
    finally:
        os._exit(status)


def void(_: object) -> None:
    """Nothing."""


def lines(said: bytes) -> list[list[str]]:
    """Whole lines as words; a line that was cut is none."""
    return [line.decode().split() for line in said.split(b"\n")[:-1]]


def in_child(work: Callable[[], Any]) -> Any:
    """The result of `work` in a process of its own."""
    out, into = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(out)
            try:
                answer = (True, work())
            except BaseException:  # noqa: BLE001 - told to the parent
                answer = (False, traceback.format_exc())
            with os.fdopen(into, "wb") as file:
                pickle.dump(answer, file)
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    if not data:
        raise AssertionError("a child ended without an answer")
    good, value = pickle.loads(data)
    if not good:
        raise AssertionError(value)
    return value


def pause(seconds: float) -> None:
    """Sleep, finely."""
    end = time.perf_counter() + seconds
    while (left := end - time.perf_counter()) > 0:
        time.sleep(min(left, 0.001))


def command(module: str, *words: object) -> list[str]:
    """The command line that runs a module of these tests in a fresh interpreter."""
    return [sys.executable, "-m", f"tests.crash.{module}", *[str(word) for word in words]]


def environment() -> dict[str, str]:
    """An environment in which `tests.crash` can be found, with nothing of the user's Holdfast."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
    path = os.pathsep.join([root, os.path.join(root, "src"), *filter(None, [kept.get("PYTHONPATH")])])
    return {**kept, "PYTHONPATH": path}
