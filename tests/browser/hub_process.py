"""A hub of a test's own: a real process on a scratch home, killed and started again at will."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

LIMIT_S = 60
# Where agents are told that their stores are: a test's agents keep theirs in its own folder.
STORES = frozenset(
    {
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "CURSOR_DATA_DIR",
        "GEMINI_CLI_HOME",
        "HERMES_HOME",
        "KIMI_CODE_HOME",
        "KIMI_SHARE_DIR",
        "OPENCODE_DB",
        "XDG_DATA_HOME",
    }
)


def wait_for(what: str, condition: Callable[[], Any]) -> Any:
    """What the condition gives once it is true."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {LIMIT_S} s for {what}")


class HubProcess:
    """`holdfast up` on a folder."""

    def __init__(self, folder: str):
        self.folder = folder
        self.home = os.path.join(folder, "home")
        self.work = os.path.join(folder, "work")
        os.makedirs(self.work, exist_ok=True)
        self.env = {
            **{name: value for name, value in os.environ.items() if name not in STORES},
            "HOLDFAST_HOME": self.home,
            "HOLDFAST_DEMO_HOME": os.path.join(folder, "demo"),
            "HOME": folder,
        }
        self.url = ""
        self.token = ""
        self._port = 0
        self._killed = False
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, on the port that it had before."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "up", "--json", "--port", str(self._port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.env,
            cwd=self.work,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        late = threading.Timer(LIMIT_S, self._process.kill)  # then the line is empty, which is no JSON
        late.start()
        try:
            told = json.loads(self._process.stdout.readline())
        finally:
            late.cancel()
        self._killed = False
        self.url, self.token = told["url"], told["token"]
        self._port = int(self.url.rsplit(":", 1)[1])

    @property
    def page_url(self) -> str:
        """Where a browser is led to."""
        return f"http://holdfast.localhost:{self._port}"

    def kill(self) -> None:
        """As a crash would: nothing is said goodbye to."""
        self._end(signal.SIGKILL)
        self._killed = True

    def stop(self) -> None:
        """End it in good order, and its agents, which would outlive it."""
        if self._killed:
            self.start()
        if self._process is None:
            return
        try:
            for status in ("queued", "running"):
                for task in self.ask("GET", f"/api/tasks?status={status}")["tasks"]:
                    self.ask("POST", f"/api/tasks/{task['id']}/cancel", {})
                    self.ended(task["id"])
        finally:
            self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(how)
        try:
            process.wait(LIMIT_S)
        finally:
            process.kill()  # no more than a formality for one that has ended
            process.wait(LIMIT_S)
            assert process.stdout is not None
            process.stdout.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask its API."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"authorization": f"Bearer {self.token}", "content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return json.load(answer)

    def dispatch(self, said: str, steps: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Give the demo agent a script: {"task", "session"}, both as ids."""
        prompt = f"{said} <<{json.dumps(steps)}>>"
        told = self.ask(
            "POST", "/api/dispatch", {"prompt": prompt, "agent": "demo", "cwd": self.work, **more}
        )
        return {name: value if isinstance(value, str) else value["id"] for name, value in told.items()}

    def ended(self, task: str) -> str:
        """Wait for a task's end: how it ended."""

        def status() -> str | None:
            told = self.ask("GET", f"/api/tasks/{task}")
            found = str(told.get("task", told)["status"])
            return found if found in ("succeeded", "failed", "cancelled", "interrupted") else None

        return str(wait_for(f"the end of task {task}", status))

    def ran(self, said: str, steps: list[dict[str, Any]], **more: Any) -> str:
        """Run a script to its end: the session."""
        told = self.dispatch(said, steps, **more)
        self.ended(told["task"])
        return str(told["session"])
