"""A client follows while the hub is killed and started again during live runs: it sees the log, each once.

Five kills by default; a fortieth of HOLDFAST_TORTURE if that is more.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.client import HubClient
from holdfast.client.stream import StreamMessage
from holdfast.home import Home
from tests.crash.support import TORTURE
from tests.hub.running_hub import RunningHub, running, script

KILLS = max(5, TORTURE // 40)
DEADLINE_S = 120.0 + 10 * KILLS
OVER = ("succeeded", "failed", "cancelled", "interrupted")

Seen = list[dict[str, Any]]


class Follower(threading.Thread):
    """Reads a stream until it is told that enough has come; what went wrong is kept."""

    def __init__(self, hub: HubClient, session: str | None, after: str | None = None):
        super().__init__(daemon=True)
        self.seen: Seen = []
        self.gaps: list[StreamMessage] = []
        self.problem: Exception | None = None
        self._stream = hub.stream(session, after=after, patience_s=DEADLINE_S)
        self._enough: Callable[[Seen], bool] = lambda _: False
        self._lock = threading.Lock()
        self.start()

    def run(self) -> None:
        try:
            for message in self._stream:
                if message.name == "gap":
                    self.gaps.append(message)
                with self._lock:
                    if message.name == "event":
                        self.seen.append(message.data)
                    if self._enough(self.seen):
                        return
        except Exception as problem:  # noqa: BLE001 - it is looked at in the test's own thread
            self.problem = problem

    def until(self, enough: Callable[[Seen], bool]) -> Seen:
        """What was seen once it is enough."""
        with self._lock:
            self._enough = enough
            done = enough(self.seen)
        if not done:
            self.join(DEADLINE_S)
        assert self.problem is None, self.problem
        assert done or enough(self.seen), (len(self.seen), self.is_alive(), self.seen[-3:])
        assert not self.gaps, self.gaps
        return self.seen


def talk(rng: random.Random, pieces: int) -> str:
    """A run of some seconds that says and does many things."""
    steps: list[dict[str, Any]] = []
    for number in range(pieces):
        steps += [
            {"say": f"piece {number}", "chunk": 3, "delay": 0.005},
            {"tool": "shell", "run": f"echo {number}; sleep {rng.uniform(0.05, 0.3):.2f}"},
        ]
    return script(*steps)


def all_over(hub: RunningHub, tasks: list[str]) -> bool:
    found = {task["id"]: task["status"] for task in hub.client().tasks(limit=1000)}
    return all(found[task] in OVER for task in tasks)


def test_a_reader_sees_the_log_though_the_hub_is_killed_again_and_again(home: Home, tmp_path: Path) -> None:
    rng = random.Random(6)
    with running(home, str(tmp_path / "work"), "[run]\nat_once = 8\n") as hub:
        client = hub.client()
        of_all = Follower(client, None, after="")  # a cursor that says nothing: from the start, after a gap
        readers: dict[str, Follower] = {}
        tasks: list[str] = []
        for _ in range(KILLS):
            made = client.dispatch(talk(rng, 8), agent="demo", cwd=hub.terminal.cwd)
            tasks.append(made["task"])
            readers[made["session"]] = Follower(client, made["session"])
            time.sleep(rng.uniform(0.1, 0.8))  # whenever it may be: that is the point
            hub.kill()
            time.sleep(rng.uniform(0.0, 0.3))
            hub.start()
            client = hub.client()
        deadline = time.monotonic() + DEADLINE_S
        while not all_over(hub, tasks):
            assert time.monotonic() < deadline, hub.log()
            time.sleep(0.2)
        logs = {session: list(client.events(session)) for session in readers}
        for task in client.tasks(limit=1000):
            assert task["status"] == "succeeded", (task, hub.log())
        for session, reader in readers.items():
            whole = len(logs[session])
            seen = reader.until(lambda seen, whole=whole: len(seen) >= whole)  # type: ignore[misc]
            assert [one["event"] for one in seen] == logs[session]
            assert [one["event"]["seq"] for one in seen] == list(range(1, whole + 1))
        everything = sum(map(len, logs.values()))
        of_all.gaps.clear()
        seen = of_all.until(lambda seen: len(seen) >= everything)
        for session, log in logs.items():
            assert [one["event"] for one in seen if one["session"] == session] == log
        assert len(seen) == everything
        said = [e["body"]["text"] for e in logs[next(iter(logs))] if e["kind"] == "assistant"]
        assert said == [f"piece {number}" for number in range(8)]
