"""`holdfast demo`: the tour's claims hold, and nothing of it is left behind."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.support.terminal import HOLDFAST


def tour(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return subprocess.run(
        [*HOLDFAST, "demo", *words],
        env={**kept, "TMPDIR": str(folder), "HOME": str(folder / "nobody")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def running_in(folder: Path) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            found += [pid] if f"{folder}/holdfast-demo-".encode() in environment else []
        except OSError:
            continue
    return found


def test_every_claim_of_the_tour_is_checked_and_holds(tmp_path: Path) -> None:
    done = tour(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    claims = json.loads(done.stdout)["claims"]
    assert len(claims) >= 14 and all(claim["holds"] for claim in claims)
    assert {claim["act"][0] for claim in claims} == {"1", "2", "3"}
    assert list(tmp_path.iterdir()) == [], "it cleans up after itself"
    assert running_in(tmp_path) == []


def test_it_tells_a_person_what_it_does_and_where_the_page_is(tmp_path: Path) -> None:
    done = tour(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The page shows it:\n  http://127.0.0.1:" in done.stdout
    assert "✗" not in done.stdout and done.stdout.count("✓") >= 14
