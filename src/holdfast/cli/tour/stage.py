"""The stage of the tour: a home that is thrown away, a hub in it, and the commands that anybody gives."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.errors import HoldfastError
from holdfast.home import Home
from holdfast.process import identity
from holdfast.process.identity import Ident
from holdfast.spool.folder import Spool

T = TypeVar("T")

PATIENCE_S = 60.0  # for anything that is waited for; on a quiet machine it takes a moment
COMMAND = (sys.executable, "-m", "holdfast")


class Stage:
    """A scratch home; leaving it ends all that was started there and removes it."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="holdfast-demo-")
        self.home = Home(os.path.join(self.folder, "home"))
        self.cwd = os.path.join(self.folder, "project")
        os.mkdir(self.cwd)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self._env = {
            **kept,
            "HOLDFAST_HOME": self.home.path,
            "HOLDFAST_DEMO_HOME": os.path.join(self.folder, "agent"),
        }
        self._hub: subprocess.Popen[str] | None = None
        self._port = "0"
        self._begun: set[str] = set()  # tasks
        self.address = ""

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_hub()
        for task in self._begun:
            with suppress(HoldfastError):  # it has ended, and nothing of it runs
                self.give("cancel", task, "--now")
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- the hub

    def start_hub(self) -> None:
        """Start it, on the same port as before, and wait until it says its address."""
        log = os.path.join(self.folder, "hub.log")
        with open(log, "a") as errors:
            self._hub = subprocess.Popen(
                [*COMMAND, "up", "--port", self._port],
                env=self._env,
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # Ctrl-C is for the tour, which ends it
            )
        assert self._hub.stdout is not None
        for line in self._hub.stdout:
            words = [word for word in line.split() if word.startswith("http://")]
            if words:
                self.address = words[0]
                self._port = self.address.split("/")[2].rpartition(":")[2]
                return
        with open(log) as errors:
            raise HoldfastError("the hub did not start", hint=errors.read()[-400:].strip())

    @property
    def hub_pid(self) -> int:
        """The hub's process."""
        return self._hub.pid if self._hub is not None else 0

    def kill_hub(self) -> None:
        """End it as the kernel does when memory is short."""
        self._end_hub(signal.SIGKILL)

    def stop_hub(self) -> None:
        """SIGTERM, as a service manager ends it."""
        self._end_hub(signal.SIGTERM)

    def _end_hub(self, number: signal.Signals) -> None:
        if self._hub is not None:
            self._hub.send_signal(number)
            self._hub.wait()
            if self._hub.stdout is not None:
                self._hub.stdout.close()
            self._hub = None

    # --- commands

    def give(self, *words: str) -> str:
        """What a command prints; its complaint as an error."""
        done = subprocess.run(
            [*COMMAND, *words],
            env=self._env,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise HoldfastError(f"`holdfast {words[0]}` failed: {done.stderr.strip()}")
        return done.stdout

    def asked(self, *words: str) -> Any:
        """What a command says with --json."""
        return json.loads(self.give(*words, "--json"))

    def begin(self, steps: list[dict[str, Any]], said: str, *words: str) -> dict[str, str]:
        """Have the demo agent do these steps; {"task", "session"}."""
        prompt = f"{said} <<{json.dumps(steps)}>>"
        begun: dict[str, str] = self.asked("run", "-a", "demo", "--detach", *words, prompt)
        self._begun.add(begun["task"])
        return begun

    def events(self, session: str) -> list[dict[str, Any]]:
        """A session's log."""
        return [json.loads(line) for line in self.give("log", session, "--json").splitlines()]

    def task(self, task: str) -> dict[str, Any]:
        """One task as it is now."""
        found: dict[str, Any] = next(t for t in self.asked("tasks") if t["id"] == task)
        return found

    # --- what happens

    def until(self, what: str, look: Callable[[], T]) -> T:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := look()):
            if time.monotonic() > deadline:
                raise HoldfastError(f"waited in vain for {what}")
            time.sleep(0.05)
        return found

    def ended(self, task: str) -> dict[str, Any]:
        """A task once it has ended."""
        over = ("succeeded", "failed", "cancelled", "interrupted")
        return self.until(f"the end of {task}", lambda: (t := self.task(task))["status"] in over and t) or {}

    def lines(self, name: str) -> list[str]:
        """The lines of a file that the agent writes; none before it is there."""
        try:
            with open(os.path.join(self.cwd, name)) as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def agent(self, task: str) -> Ident:
        """The agent's process."""
        found = Spool(self.home.task(task)).agent()
        if found is None:
            raise HoldfastError(f"task {task} has no agent")
        return found

    def lives(self, process: Ident) -> bool:
        """Whether that very process still runs."""
        return identity.is_alive(*process)
