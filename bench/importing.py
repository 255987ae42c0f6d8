"""`holdfast import claude` beside `agentsview sync` on the same transcripts, and its growth with them."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from typing import NamedTuple

from bench import agentsview
from bench.history import MB, write
from bench.measure import Measured, in_turns, measured

HOLDFAST = (sys.executable, "-m", "holdfast")


async def run(quick: bool) -> list[Measured]:
    """All of it, with sessions of 1 MB each."""
    # Quick is fewer rounds: of fewer transcripts, most would be the start.
    many, few, rounds = 100, 10, 3 if quick else 7
    program = agentsview.program()
    with tempfile.TemporaryDirectory() as folder:
        large, small = Transcripts(folder, many), Transcripts(folder, few)

        async def ours() -> Took:
            return large.imported()

        async def theirs() -> Took:
            return large.synced(program)

        async def ours_of_few() -> Took:
            return small.imported()

        beside = await in_turns(ours, theirs, rounds)
        growth = await in_turns(ours, ours_of_few, rounds)
    what, them = (
        f"import of {many} MB in {many} sessions of Claude's",
        f"agentsview {agentsview.VERSION} sync",
    )
    wall, cpu = [[(mine[i], base[i]) for mine, base in beside] for i in range(2)]
    grown = [(mine.wall, base.wall) for mine, base in growth]
    return [
        measured(f"{what} (per MB)", them, wall, budget="≥ 3", speed=True),
        measured(f"{what} (CPU per MB)", them, cpu, speed=True),
        measured(f"{what} (per MB)", f"of {few} MB in {few}", grown, budget="≤ 1.25"),
    ]


class Took(NamedTuple):
    """Seconds per MB: on the clock, and of all processes together."""

    wall: float
    cpu: float


class Transcripts:
    """Some sessions as Claude Code keeps them, in a home of their own."""

    def __init__(self, folder: str, sessions: int):
        self._sessions = sessions
        self._home = os.path.join(folder, f"{sessions}")
        self._made = os.path.join(self._home, "made")  # what is made of them
        project = os.path.join(self._home, ".claude", "projects", "-home-dev-proj")
        os.makedirs(project)
        for number in range(sessions):
            native_id = str(uuid.UUID(int=random.Random(number).getrandbits(128), version=4))
            write(os.path.join(project, f"{native_id}.jsonl"), MB, "plain", native_id, seed=number)

    def imported(self) -> Took:
        """Our import into an empty home."""
        begun = self._begin()
        env = {"HOME": self._home, "PATH": os.environ["PATH"], "HOLDFAST_HOME": self._made}
        words = [*HOLDFAST, "import", "claude", "--json"]
        done = subprocess.run(words, env=env, cwd=self._home, stdout=subprocess.PIPE, check=True)
        took = self._since(begun)
        adopted = [one for one in json.loads(done.stdout)["adopted"] if one["new"] and one["events"]]
        assert len(adopted) == self._sessions, done.stdout
        return took

    def synced(self, program: str) -> Took:
        """Their sync into an empty database."""
        begun = self._begin()
        said = agentsview.sync(program, self._home, self._made)
        took = self._since(begun)
        assert f"{self._sessions} sessions synced" in said, said
        return took

    def _begin(self) -> Took:
        """Nothing is there, and nobody has to wait for what the one before left to be written."""
        shutil.rmtree(self._made, ignore_errors=True)
        os.sync()
        return _clocks()

    def _since(self, begun: Took) -> Took:
        now = _clocks()
        return Took((now.wall - begun.wall) / self._sessions, (now.cpu - begun.cpu) / self._sessions)


def _clocks() -> Took:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(time.perf_counter(), spent.ru_utime + spent.ru_stime)
