"""A hub in a process of its own, that tests talk to, kill and start again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.client import HubClient
from holdfast.home import Home
from tests.support.terminal import HOLDFAST, Terminal


def odd(*words: str) -> tuple[str, ...]:
    """The program of a hub that is odd in some way; see there."""
    return (sys.executable, os.path.join(os.path.dirname(__file__), "odd_hub.py"), *words)


class RunningHub:
    """`holdfast up` on a terminal's home, or another program that says where it listens as that does."""

    def __init__(self, terminal: Terminal, *program: str):
        self.terminal = terminal
        self._program = program or (*HOLDFAST, "up", "--json", "--port", "0")
        self._process: subprocess.Popen[str] | None = None
        self.url = self.token = ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Until it listens."""
        with open(os.path.join(self.terminal.home.path, "hub.log"), "a") as log:
            self._process = subprocess.Popen(
                self._program,
                env=self.terminal.env,
                cwd=self.terminal.cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log()
        told = json.loads(line)
        self.url, self.token = told["url"], told["token"]

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End it by a signal; its exit status."""
        self.signal(number)
        return self.wait()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> int:
        """Until it has ended; its exit status."""
        assert self._process is not None
        status = self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return status

    def close(self) -> None:
        """It and all that it has started."""
        if self._process is not None:
            self.kill()
        self.terminal.end_all()

    def client(self) -> HubClient:
        """Its client, found as programs find it."""
        found = HubClient.of(self.terminal.home)
        assert found is not None, self.log()
        return found

    def log(self) -> str:
        """What it has said."""
        with open(os.path.join(self.terminal.home.path, "hub.log")) as file:
            return file.read()

    def rss(self) -> int:
        """Bytes of memory that are its own."""
        with open(f"/proc/{self.pid}/smaps_rollup") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Private_"))


@contextmanager
def started(terminal: Terminal, program: tuple[str, ...] = ()) -> Iterator[RunningHub]:
    """A hub of a terminal; nothing of it is left afterwards."""
    hub = RunningHub(terminal, *program)
    try:
        hub.start()
        yield hub
    finally:
        hub.close()


@contextmanager
def running(home: Home, cwd: str, config: str = "", program: tuple[str, ...] = ()) -> Iterator[RunningHub]:
    """A hub on a home."""
    os.makedirs(cwd, exist_ok=True)
    terminal = Terminal(home, cwd)
    terminal.config(config)
    with started(terminal, program) as hub:
        yield hub


@contextmanager
def running_in(folder: Path, config: str = "") -> Iterator[RunningHub]:
    """A hub on a home that is made in a folder; CWD in the config is where its agents work."""
    home = Home(str(folder / "home"))
    home.make()
    cwd = str(folder / "work")
    with running(home, cwd, config.replace("CWD", cwd)) as hub:
        yield hub


def script(*steps: dict[str, Any]) -> str:
    """A prompt for the demo agent."""
    return f"go <<{json.dumps(list(steps))}>>"
