"""Random histories of dispatch, kill, restart, cancel and edits of the store, against an oracle.

Hundreds without agents, both sides of each run written by hand, and ten with real agents that are
really killed; HOLDFAST_TORTURE sets how many of each.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from holdfast import errors
from holdfast.resume.rules import RULES
from tests.crash import run_support
from tests.crash.children import command, environment
from tests.crash.resume_histories import Campaign
from tests.crash.support import TORTURE

PER_HOME = 10
ROUNDS = 4
KILLED = max(PER_HOME, TORTURE or PER_HOME)
IN_ONE = 100
HISTORIES = max(300, TORTURE)


@pytest.mark.parametrize("number", range(KILLED // PER_HOME))
def test_the_verdict_is_what_the_table_says(tmp_path: Path, number: int) -> None:
    seed = number if not TORTURE else int.from_bytes(os.urandom(4), "big")
    words = command("resume_campaign", tmp_path / "home", PER_HOME, ROUNDS, seed)
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-8000:]}"
    seen = json.loads(done.stdout)
    assert seen["resume"] and seen["fresh"] and seen["wait"], seen


@pytest.mark.parametrize("number", range(HISTORIES // IN_ONE))
async def test_many_histories(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = number if not TORTURE else int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}")
    with run_support.scratch_home() as home:
        monkeypatch.setenv("HOLDFAST_DEMO_HOME", run_support.environment(home)["HOLDFAST_DEMO_HOME"])
        campaign = Campaign(home, IN_ONE, seed)
        await campaign.play()
    assert {"resume", "fresh", "wait"} <= {*campaign.seen}, campaign.seen


@pytest.mark.parametrize(
    "code",
    [
        "last_interrupted",
        "last_cancelled",
        "last_failed",
        "live_owner",
        "tools_running",
        "token_revoked",
        "other_folder",
        "store_missing",
        "store_torn",
        "store_unfinished",
        "memory_gap",
    ],
)
async def test_a_judge_without_a_row_is_found_out(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tuple(row for row in RULES if row.code != code)
    monkeypatch.setattr("holdfast.resume.verdict.RULES", kept)
    with run_support.scratch_home() as home:
        monkeypatch.setenv("HOLDFAST_DEMO_HOME", run_support.environment(home)["HOLDFAST_DEMO_HOME"])
        with pytest.raises((AssertionError, errors.HoldfastError)):
            await Campaign(home, IN_ONE, seed=1).play()
