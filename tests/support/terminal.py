"""Holdfast as a person at a terminal uses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.home import Home

HOLDFAST = (sys.executable, "-m", "holdfast")
DEADLINE_S = 60.0


class Terminal:
    """One home and the commands that are given in it."""

    def __init__(self, home: Home, cwd: str, prefix: Sequence[str] = ()):
        """`prefix`: what every command is started by, such as setpriv."""
        self.home = home
        self.prefix = prefix
        self.cwd = cwd
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
        self.env = {**kept, "HOLDFAST_HOME": home.path, "HOLDFAST_DEMO_HOME": os.path.join(home.path, "demo")}

    def config(self, text: str) -> None:
        """Write the config."""
        with open(self.home.config, "w") as file:
            file.write(text)

    def give(self, *words: str, status: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A command and all it says; its exit status must be as expected."""
        done = subprocess.run(
            [*self.prefix, *HOLDFAST, *words],
            env=self.env,
            cwd=self.cwd,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == status, (
            words,
            done.returncode,
            done.stdout,
            done.stderr,
            self.worker_log(),
        )
        return done

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command that goes on."""
        return subprocess.Popen(
            [*self.prefix, *HOLDFAST, *words],
            env=self.env,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def asked(self, *words: str, status: int = 0) -> Any:
        """What a command says with --json."""
        return json.loads(self.give(*words, "--json", status=status).stdout)

    def asked_to_fail(self, *words: str, status: int = 4) -> Any:
        """What a command that is refused says with --json."""
        return json.loads(self.give(*words, "--json", status=status).stderr)

    def run(self, *steps: dict[str, Any], words: Sequence[str] = (), status: int = 0) -> dict[str, Any]:
        """Run a script with the demo agent to its end; its task."""
        prompt = f"go <<{json.dumps(list(steps))}>>"
        self.give("run", "-a", "demo", *words, prompt, status=status)
        return self.last()

    def detached(self, *steps: dict[str, Any], words: Sequence[str] = ()) -> dict[str, str]:
        """Begin a script; {"task", "session"}."""
        prompt = f"go <<{json.dumps(list(steps))}>>"
        found: dict[str, str] = self.asked("run", "-a", "demo", "--detach", *words, prompt)
        return found

    def tasks(self) -> list[dict[str, Any]]:
        """All tasks, the latest first."""
        found: list[dict[str, Any]] = self.asked("tasks")
        return found

    def last(self) -> dict[str, Any]:
        """The task that was queued last."""
        return self.tasks()[0]

    def task(self, name: str) -> dict[str, Any]:
        """One task."""
        return next(t for t in self.tasks() if t["id"] == name)

    def log(self, session: str) -> list[dict[str, Any]]:
        """A session's events."""
        return [json.loads(line) for line in self.give("log", session, "--json").stdout.split("\n")[:-1]]

    def until(self, what: Callable[[], Any]) -> Any:
        """Wait until something is so."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := what()):
            assert time.monotonic() < deadline, self.worker_log()
            time.sleep(0.05)
        return found

    def ended(self, task: str) -> dict[str, Any]:
        """A task once it has ended."""
        over = ("succeeded", "failed", "cancelled", "interrupted")
        found: dict[str, Any] = self.until(lambda: (t := self.task(task))["status"] in over and t)
        return found

    def until_event(self, session: str, kind: str, **body: Any) -> dict[str, Any]:
        """An event, once it is there."""

        def look() -> Any:
            for event in self.log(session):
                if event["kind"] == kind and body.items() <= event["body"].items():
                    return event
            return None

        found: dict[str, Any] = self.until(look)
        return found

    def end_all(self) -> None:
        """Kill the workers and agents that still run here."""
        mark = f"HOLDFAST_HOME={self.home.path}\0".encode()
        demo = f"HOLDFAST_DEMO_HOME={self.home.path}/demo\0".encode()
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    found = file.read()
                if mark in found or demo in found:
                    os.kill(int(name), signal.SIGKILL)
            except (OSError, ValueError):
                continue

    def worker_log(self) -> str:
        """What the workers said."""
        path = os.path.join(self.home.path, "worker.log")
        if not os.path.exists(path):
            return ""
        with open(path) as file:
            return file.read()
