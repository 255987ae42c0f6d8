"""Random damage to one copy or both: nothing readable is lost, and what is lost is told.

30 rounds by default; a quarter of HOLDFAST_TORTURE if that is more, with seeds of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.support import TORTURE, torture_seed
from tests.crash.test_kill_loop import run

ROUNDS = max(TORTURE // 4, 30)
PER_HOME = 30 if ROUNDS < 1000 else 100


@pytest.mark.parametrize("number", range(-(-ROUNDS // PER_HOME)))
def test_an_oracle_agrees_with_every_repair(tmp_path: Path, number: int) -> None:
    """One copy whole: all is as before. Both damaged: every readable record is back, the loss is told."""
    seed = number * PER_HOME if not TORTURE else torture_seed(number)
    seen = run("damage_campaign", tmp_path, PER_HOME, seed)
    assert seen["rounds"] == PER_HOME and seen["records"] > 200 * PER_HOME, seen
    assert min(seen[f"rounds, {mode}"] for mode in ("database", "mirrors", "both")) >= PER_HOME // 3, seen


# Found by random seeds: a row that is not JSON without a mirror; a deleted session without its task's end;
# an altered session id in a row without any readable record.
@pytest.mark.parametrize("seed", [100205, 900419, 1000026])
def test_seeds_that_once_failed(tmp_path: Path, seed: int) -> None:
    """One round of each."""
    assert run("damage_campaign", tmp_path, 1, seed)["rounds"] == 1  # `run` fails with the campaign
