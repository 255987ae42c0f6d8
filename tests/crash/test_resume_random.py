"""Random histories of dispatch, kill, restart, cancel and edits of the store, against an oracle.

A few by default; HOLDFAST_HISTORIES (or HOLDFAST_TORTURE) sets how many threads are played.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.crash.children import command, environment
from tests.crash.support import TORTURE

PER_HOME = 10
ROUNDS = 4
HISTORIES = int(os.environ.get("HOLDFAST_HISTORIES", TORTURE or 2 * PER_HOME))


@pytest.mark.parametrize("number", range(max(1, HISTORIES // PER_HOME)))
def test_the_verdict_is_what_the_table_says(tmp_path: Path, number: int) -> None:
    seed = number if not TORTURE else int.from_bytes(os.urandom(4), "big")
    words = command("resume_campaign", tmp_path / "home", PER_HOME, ROUNDS, seed)
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-8000:]}"
    seen = json.loads(done.stdout)
    assert seen["resume"] and seen["fresh"] and seen["wait"], seen
