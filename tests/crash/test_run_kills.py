"""Kill Holdfast or its agents at any moment: no event is lost or doubled, and the status is right.

Dozens of demo tasks by default; HOLDFAST_TORTURE sets another number.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.crash.children import command, environment
from tests.crash.support import TORTURE

PER_HOME = 12
ROUNDS = max(2, TORTURE // (3 * PER_HOME))


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("what", ["hub", "agent", "both"])
def test_killed_again_and_again(tmp_path: Path, what: str, number: int) -> None:
    """Every log equals what a fresh reading of the spool gives, whatever was killed when."""
    seed = number if not TORTURE else int.from_bytes(os.urandom(4), "big")
    words = command("run_campaign", tmp_path / "home", PER_HOME, seed, what)
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    worker_log = tmp_path / "home" / "worker.log"
    assert done.returncode == 0, (
        f"seed {seed}: {done.stderr}{worker_log.read_text() if worker_log.exists() else ''}"
    )
    seen = json.loads(done.stdout)
    assert seen["kills"] > 2, seen
    if what == "hub":
        assert seen["succeeded"] == PER_HOME, seen
