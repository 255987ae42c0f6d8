"""Strike a worker, its agents and their machine with faults while demo tasks run, then judge the home.

`python -m tests.crash.fault_campaign FOLDER FAULTS SEED` runs rounds of 25 faults. Each round has a home and
a seed of its own (SEED, SEED + 1, ...). It prints what it saw as JSON, or names the seed that failed.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import random
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable
from typing import Any

from holdfast import shortage
from holdfast.home import Home
from holdfast.runner import service
from tests.crash import children, fault_oracle, run_steps, run_support
from tests.crash.fault_oracle import Promise
from tests.crash.faults import Attack, Place, starve
from tests.crash.support import quick_mirrors

PER_ROUND = 25
BUSY = 6  # tasks that are kept from ending while faults strike
MORE = 5  # that are queued when fewer are left


def main(folder: str, faults: int, seed: int) -> None:
    """All rounds."""
    seen: collections.Counter[str] = collections.Counter()
    while seen["faults"] < faults:
        number = seed + seen["rounds"]
        try:
            seen.update(
                run_round(os.path.join(folder, str(number)), number, min(PER_ROUND, faults - seen["faults"]))
            )
        except BaseException:
            again = f"python -m tests.crash.fault_campaign FOLDER {PER_ROUND} {number}"
            print(f"seed {number} failed after {json.dumps(seen)}; to repeat it: {again}", file=sys.stderr)
            raise
        seen["rounds"] += 1
    print(json.dumps(seen))


def run_round(folder: str, seed: int, faults: int) -> collections.Counter[str]:
    """Faults on one home until there were so many, an undisturbed end, and the judgment; what was counted."""
    place = Place(folder)
    place.mount()
    try:
        home = run_support.made(os.path.join(place.disk, "home"))
        round_ = Round(place, home, random.Random(seed))
        try:
            round_.disturb(faults)
            round_.finish()
        finally:
            round_.close()
        effects = fault_oracle.Home(home.path, place.effects, place.agent_store)
        judged = fault_oracle.judge(effects, round_.promises)
        seen = collections.Counter(round_.attack.faults)
        seen.update(faults=len(round_.attack.faults), tasks=len(round_.promises), **judged.statuses)
        seen.update(events=judged.events, effects=judged.effects)
    except BaseException:
        shutil.copytree(place.disk, os.path.join(folder, "failed"), ignore=shutil.ignore_patterns("stdin"))
        raise
    finally:
        place.unmount()
    shutil.rmtree(folder)
    return seen


class Round:
    """One home under attack."""

    def __init__(self, place: Place, home: Home, rng: random.Random):
        self.promises: list[Promise] = []
        self._place = place
        self._home = home
        self._rng = rng
        self._queue(BUSY + MORE)
        self.attack = Attack(place, home, rng, self._worker)

    def disturb(self, faults: int) -> None:
        """Strike until there were so many faults."""
        backup_at = self._rng.randint(0, faults // 2)
        while (count := len(self.attack.faults)) < faults:
            self.attack.ensure_worker()
            if sum(status not in fault_oracle.ENDED for status in self._statuses()) < BUSY:
                self._queue(MORE)
            children.pause(self._rng.uniform(0.0, 0.2))
            if self._rng.random() < 0.3:
                run_support.answer_all(self._home)
            if count >= backup_at:
                self.attack.back_up()
                backup_at = count + faults // 2
            self.attack.strike()

    def finish(self) -> None:
        """Let all tasks end, with a person at hand."""
        deadline = time.monotonic() + run_support.DEADLINE_S
        while any(status not in fault_oracle.ENDED for status in self._statuses()):
            assert time.monotonic() < deadline, f"tasks do not end: {self._open()}"
            self.attack.ensure_worker()
            run_support.answer_all(self._home)
            time.sleep(0.1)
        self.attack.worker.rest()
        self.attack.worker = self._worker()  # its start mends what the last fault left
        self.attack.worker.rest()

    def close(self) -> None:
        """Leave no process behind."""
        run_support.end_workers(self._home)
        run_support.end_all(self._home)

    def _statuses(self) -> list[str]:
        with contextlib.closing(sqlite3.connect(self._home.database)) as db:
            return [status for (status,) in db.execute("select status from task")]

    def _open(self) -> list[str]:
        return [repr(task) for task in run_support.tasks(self._home) if task.status not in fault_oracle.ENDED]

    def _queue(self, count: int) -> None:
        prompts, made = [], []
        for number in range(len(self.promises), len(self.promises) + count):
            name = f"prompt-{number}"
            script, effects = any_script(self._rng, name, self._place.effects)
            prompts.append(f"do {name} {script}")
            made.append((name, effects))
        tasks = run_support.queue(self._home, prompts)
        self.promises += [Promise(task, *each) for task, each in zip(tasks, made, strict=True)]

    def _worker(self) -> children.Child:
        def work(say: Callable[[str], None]) -> None:
            run_steps.quick()
            quick_mirrors()
            vars(shortage).update(FIRST_S=0.1, LONGEST_S=0.5)
            starve(self._place.no_processes)
            env = {**run_support.environment(self._home), "HOLDFAST_DEMO_HOME": self._place.agent_store}
            location = run_support.location(self._home)
            asyncio.run(service.work(self._home, location, env, None, "test", lambda _: say("up")))

        return run_support.start_worker(self._home, work)


def any_script(rng: random.Random, name: str, effects: str) -> tuple[str, list[str]]:
    """A script of half a second with effects outside of the home, and the lines that it appends."""
    made: list[str] = []

    def effect() -> str:
        made.append(f"{name}/{len(made)}")
        return f"sleep 0.0{rng.randint(0, 9)}; echo {made[-1]} >> {effects}"

    makers: list[Callable[[], dict[str, Any]]] = [
        lambda: {"say": f"words {rng.random()} " * rng.randint(1, 20), "chunk": 40, "delay": 0.02},
        lambda: {"tool": "shell", "run": effect()},
        lambda: {"tool": "shell", "run": effect()},
        lambda: {"tool": "shell", "run": effect(), "ask": True},
        lambda: {"parallel": [{"tool": "a", "run": effect()}, {"tool": "b", "run": effect()}]},
        lambda: {"garbage": "notjson", "bytes": rng.randint(30, 3000)},
    ]
    steps = [rng.choice(makers)() for _ in range(rng.randint(3, 8))]
    return run_support.script(*steps, {"say": f"the end of {name}"}), made


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
