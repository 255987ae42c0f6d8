"""Real agents: the same task bare and under Holdfast, against the fake model.

Runs only when it is named: `python -m bench agents` installs the agents of `make test-agents`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from bench.measure import Measured, in_turns, measured
from tests.agents import install, namespace
from tests.agents.__main__ import INSIDE
from tests.agents.agent import LABELS, Agent, set_up
from tests.agents.fake_model.script import Step, prompt
from tests.agents.fake_model.server import FakeModel, serving
from tests.agents.lab import Lab, laboratory

BUDGET = "≤ 1.05"
STEPS = (
    Step(say="First I look at what is there. " * 4, shell="sleep 1; ls -la /", delay=0.03),
    Step(say="Then I change it. " * 6, shell="sleep 1.5; seq 200", delay=0.03),
    Step(say="Now the tests. " * 6, shell="sleep 2; echo 12 passed", delay=0.03),
    Step(text="All have passed, and here is what I did. " * 6, delay=0.03),
)


async def run(quick: bool) -> list[Measured]:
    """All agents, in a namespace that has nothing but loopback."""
    if status := await asyncio.to_thread(install.main):
        raise SystemExit(status)
    words = [sys.executable, "-m", "bench.agents", "2" if quick else "5"]
    done = await asyncio.to_thread(
        subprocess.run,
        namespace.command(words),
        env={**os.environ, INSIDE: "1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    return [Measured(**row) for row in json.loads(done.stdout.splitlines()[-1])]


async def _inside(rounds: int) -> list[Measured]:
    results = []
    namespace.raise_loopback()
    with serving() as model:
        for label in LABELS:
            results.append(await _one(label, model, rounds))
    return results


async def _one(label: str, model: FakeModel, rounds: int) -> Measured:
    with laboratory(label, model) as lab, tempfile.TemporaryDirectory() as folder:
        bare = set_up(label, folder, model.url, asks=False)
        pairs = await in_turns(lambda: _under_holdfast(lab), lambda: _bare(bare, lab.words()), rounds)
        return measured(f"{label}: wall", "bare", pairs, budget=BUDGET)


async def _under_holdfast(lab: Lab) -> float:
    said = prompt(lab.words(), STEPS)
    words = ("run", "-a", lab.agent.name, "--permissions", "allow", "--json", said)
    return await _timed([sys.executable, "-m", "holdfast", *words], lab.holdfast.env, lab.agent.cwd)


async def _bare(agent: Agent, words: str) -> float:
    return await _timed(agent.bare(prompt(words, STEPS)), {**agent.env, "PWD": agent.cwd}, agent.cwd)


async def _timed(words: Sequence[str], env: dict[str, str], cwd: str) -> float:
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *words, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, told = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{words[0]} ended with {process.returncode}: {told.decode(errors='replace')}")
    return time.perf_counter() - begun


if __name__ == "__main__":
    found = asyncio.run(_inside(int(sys.argv[1])))
    print(json.dumps([measured.__dict__ for measured in found]))
