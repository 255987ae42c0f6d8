"""Holdfast as a user drives it: its command line, in processes of its own, and signals."""

from __future__ import annotations

import glob
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import psutil
from psutil import Process

from tests.agents.agent import Agent
from tests.agents.waiting import until

Json = dict[str, Any]

ENDED = ("succeeded", "failed", "cancelled", "interrupted")


class Terminal(NamedTuple):
    """A `holdfast run` that somebody looks at."""

    process: subprocess.Popen[bytes]
    output: str
    before: frozenset[str]  # the tasks that were there before it

    def text(self) -> str:
        """What it printed."""
        with open(self.output) as file:
            return file.read()


class Holdfast:
    """One home, with one agent in its config."""

    def __init__(self, home: str, agent: Agent):
        self.home = home
        self.agent = agent
        self.env = {**agent.env, "HOLDFAST_HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
        self._terminals: list[Terminal] = []
        os.makedirs(home, mode=0o700, exist_ok=True)
        with open(os.path.join(home, "config.toml"), "w") as file:
            file.write(_config(agent))

    # --- commands

    def call(self, *words: str, timeout: float = 60) -> str:
        """What a command prints; AssertionError with its complaint if it fails."""
        command = [sys.executable, "-m", "holdfast", *words]
        done = subprocess.run(
            command, env=self.env, cwd=self.agent.cwd, capture_output=True, text=True, timeout=timeout
        )
        assert done.returncode == 0, (
            f"holdfast {' '.join(words)}: {done.returncode}: {done.stderr or done.stdout}"
        )
        return done.stdout

    def run(self, prompt: str, *, session: str | None = None, permissions: str = "allow") -> Task:
        """Start a task as a person at a terminal does; returns as soon as it is queued."""
        return self.queued(self.launch(prompt, session=session, permissions=permissions))

    def launch(self, prompt: str, *, session: str | None = None, permissions: str = "allow") -> Terminal:
        """The same, without waiting for anything."""
        before = frozenset(task["id"] for task in self.tasks())
        where = ("--session", session) if session else ("-a", self.agent.name, "--cwd", self.agent.cwd)
        words = ("run", *where, "--permissions", permissions, "--json", prompt)
        with open(os.path.join(self.home, f"run-{len(self._terminals)}.out"), "wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", *words],
                env=self.env,
                cwd=self.agent.cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        terminal = Terminal(process, out.name, before)
        self._terminals.append(terminal)
        return terminal

    def queued(self, terminal: Terminal) -> Task:
        """The task that a terminal has queued."""

        def look() -> Json | None:
            found = next((task for task in self.tasks() if task["id"] not in terminal.before), None)
            if found is None and terminal.process.poll() not in (None, 0):
                raise AssertionError(f"holdfast run: {terminal.process.returncode}: {terminal.text()}")
            return found

        return Task(self, until(look, "the task is queued")["id"], terminal.process)

    def first_agent(self) -> int:
        """The pid of the first agent of this home, at the moment when it is there."""
        pattern = os.path.join(glob.escape(self.home), "tasks", "*", "agent")
        return until(
            lambda: _first_word(next(iter(glob.glob(pattern)), "")), "an agent starts", every_s=0.002
        )

    def tasks(self) -> list[Json]:
        """All tasks."""
        if not os.path.exists(os.path.join(self.home, "state.db")):
            return []
        told = json.loads(self.call("tasks", "--json"))
        found: list[Json] = told["tasks"] if isinstance(told, dict) else told
        return found

    def log(self, session: str) -> list[Json]:
        """A session's events."""
        return [json.loads(line) for line in self.call("log", session, "--json").splitlines()]

    def worker_log(self) -> str:
        """The end of what its workers said."""
        with suppress(FileNotFoundError), open(os.path.join(self.home, "worker.log")) as file:
            return file.read()[-6000:]
        return ""

    def settle(self) -> None:
        """Start again: a worker takes up all that runs."""
        self.call("tasks", "--settle")

    def processes(self) -> list[Process]:
        """Every command and worker of this home that runs; no agent and no tool."""
        return [process for process, env in _environments() if env.get("HOLDFAST_HOME") == self.home]

    def close(self) -> None:
        """End all that is left of this home."""
        for _ in range(3):  # a worker that is struck while it launches may leave a new agent
            kill(*[process for process, env in _environments() if env.get("HOME") == self.agent.home])
        for terminal in self._terminals:
            terminal.process.wait()


class Task:
    """One task and its processes."""

    def __init__(self, holdfast: Holdfast, name: str, terminal: subprocess.Popen[bytes]):
        self.id = name
        self.folder = os.path.join(holdfast.home, "tasks", name)
        self.terminal = terminal
        self._holdfast = holdfast

    def now(self) -> Json:
        """The task as `holdfast tasks` shows it."""
        return next(task for task in self._holdfast.tasks() if task["id"] == self.id)

    @property
    def session(self) -> str:
        """Its session."""
        found: str = self.now()["session"]
        return found

    def log(self) -> list[Json]:
        """The events of its session."""
        return self._holdfast.log(self.session)

    def ended(self, limit_s: float = 120.0) -> Json:
        """The task when it has ended."""

        def look() -> Json | None:
            task = self.now()
            return task if task["status"] in ENDED else None

        try:
            return until(look, f"task {self.id} ends", limit_s, every_s=0.1)
        except TimeoutError as problem:
            raise AssertionError(
                f"{problem}: {self.now()}; its stderr: {self.spool('stderr')[-2000:]!r}"
            ) from None

    def ended_as(self, status: str) -> Json:
        """The task when it has ended, which must be so."""
        task = self.ended()
        told = {key: task[key] for key in ("id", "status", "delivery", "reason", "outcome")}
        assert task["status"] == status, json.dumps(told, indent=1)
        return task

    # --- its processes

    def agent(self) -> Process | None:
        """The agent, as soon as there is one; None if it has gone already."""
        path = os.path.join(self.folder, "agent")

        def look() -> int | None:
            return _first_word(path) or (-1 if self.now()["status"] in ENDED else None)

        pid = _first_word(path) or until(look, "the agent starts", every_s=0.002)
        return _process(pid)

    def worker(self) -> Process | None:
        """The process that drives it, if one does."""
        owner = self.now()["owner"]
        return _process(int(owner["pid"])) if owner else None

    def kill_holdfast(self) -> None:
        """SIGKILL to the terminal's process and to the worker."""
        kill(_process(self.terminal.pid), self.worker())
        self.terminal.wait()

    def kill_agent(self, number: int = signal.SIGKILL) -> None:
        """A signal to the agent itself, not to its tools."""
        kill(self.agent(), number=number)

    def kill_both(self) -> None:
        """SIGKILL to Holdfast and to the agent, with nothing in between."""
        kill(self.agent(), self.worker(), _process(self.terminal.pid))
        self.terminal.wait()

    def spool(self, name: str) -> bytes:
        """A file of the task's folder, compressed or not."""
        path = os.path.join(self.folder, name)
        with suppress(FileNotFoundError), open(path, "rb") as file:
            return file.read()
        with suppress(FileNotFoundError), gzip.open(f"{path}.gz") as packed:
            return packed.read()
        return b""


def _first_word(path: str) -> int | None:
    """The pid in a file that holds a process's line of /proc; None while it is not there."""
    with suppress(FileNotFoundError, IndexError, ValueError), open(path) as file:
        return int(file.read().split()[0])
    return None


def _environments() -> Iterator[tuple[Process, dict[str, str]]]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            yield process, process.environ()


def _process(pid: int) -> Process | None:
    with suppress(psutil.NoSuchProcess, ValueError):
        return Process(pid)
    return None


def kill(*processes: Process | None, number: int = signal.SIGKILL) -> None:
    """A signal to those that still are; a pid that another process has by now is left alone."""
    for process in processes:
        if process is not None:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def _config(agent: Agent) -> str:
    lines = [f"[agents.{agent.name}]", f"path = {json.dumps(agent.path)}", f"[agents.{agent.name}.env]"]
    return "\n".join([*lines, *[f"{name} = {json.dumps(value)}" for name, value in agent.env.items()], ""])
