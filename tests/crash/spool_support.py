"""What the tests of processes and spools share: real processes with an end, and waiting for something."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from holdfast import ids
from holdfast.process import identity
from holdfast.process import table as tree
from holdfast.process.identity import Ident
from holdfast.process.table import Process
from holdfast.spool.task_dir import Spool

WAIT_S = 20.0  # a loaded machine is no failure
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


def until(happened: Callable[[], object], what: str = "") -> None:
    """Wait for it, finely; fail if it never comes."""
    deadline = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < deadline, f"waited in vain for {what or happened}"
        time.sleep(0.002)


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def seen(pid: int) -> Process:
    return tree.table()[pid]


def gone(process: Process | Ident) -> bool:
    return identity.started(process.pid) != process.started


class Run:
    """One spool with an agent that is marked with a task of its own."""

    def __init__(self, folder: str):
        self.task = ids.new(ids.TASK)
        self.spool = Spool(os.path.join(folder, self.task))
        self.shim: subprocess.Popen[bytes] | None = None

    def env(self) -> dict[str, str]:
        return {tree.MARK: self.task, "PATH": SYSTEM_PATH}

    def start(self, *argv: str, listens: bool = True, cwd: str = "/") -> Spool:
        self.spool.make({"task": self.task})
        self.shim = self.spool.start(argv, self.env(), cwd, listens)
        return self.spool

    def python(self, program: str, listens: bool = True) -> Spool:
        return self.start(sys.executable, "-u", "-c", program, listens=listens)

    def agent(self) -> Ident:
        until(lambda: self.spool.agent() is not None, "the agent's record")
        found = self.spool.agent()
        assert found is not None
        return found

    def ended(self) -> int:
        """The exit status, as soon as it is there."""
        until(lambda: self.spool.exit_status() is not None, "the exit status")
        status = self.spool.exit_status()
        assert status is not None
        return status

    def left(self) -> list[Process]:
        return tree.marked(tree.table(), self.task)


@contextmanager
def running(folder: str) -> Iterator[Run]:
    """A run that leaves no process behind."""
    run = Run(folder)
    try:
        yield run
    finally:
        deadline = time.monotonic() + WAIT_S
        while (left := run.left()) and time.monotonic() < deadline:
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.005)
        if run.shim is not None:
            run.shim.wait(WAIT_S)


@contextmanager
def child(argv: Sequence[str], env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended and reaped at the end."""
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()
