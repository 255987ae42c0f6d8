"""SIGKILL at any moment costs nothing that was acknowledged, and nothing is there twice.

50 kills by default; a quarter of HOLDFAST_TORTURE if that is more.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.crash.children import command, environment
from tests.crash.heal_campaign import CASES
from tests.crash.support import TORTURE, torture_seed

KILLS = max(TORTURE // 4, 50)
PER_HOME = 50 if KILLS < 1000 else 100
HEAL_ROUNDS = max(1, KILLS // 250)


def run(module: str, *words: object) -> dict[str, int]:
    """What a campaign saw; its own words if it failed."""
    done = subprocess.run(
        command(module, *words), env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, int] = json.loads(done.stdout)
    return seen


@pytest.mark.parametrize("number", range(-(-KILLS // PER_HOME)))
def test_acknowledged_records_survive_every_kill(tmp_path: Path, number: int) -> None:
    """Each acknowledged record is there once, in order, in both copies, after every kill on one home."""
    seed = number if not TORTURE else torture_seed(number)
    seen = run("kill_campaign", tmp_path / "home", PER_HOME, seed)
    assert seen["kills"] == PER_HOME, seen
    assert seen["acknowledged"] > PER_HOME, f"the writers hardly wrote: {seen}"
    assert seen["mirror_behind"] > 0, f"no kill came between a commit and its mirror: {seen}"


@pytest.mark.parametrize("case", CASES)
def test_a_kill_while_healing_loses_nothing(tmp_path: Path, case: str) -> None:
    """Healing that is killed again and again still ends with every session as it was before the damage."""
    seed = 1 if not TORTURE else torture_seed(0)
    assert run("heal_campaign", tmp_path, case, HEAL_ROUNDS, seed)["rounds"] == HEAL_ROUNDS
