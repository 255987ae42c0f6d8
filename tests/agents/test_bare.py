"""Each agent alone, without Holdfast, plays a script to its end: so the fake model is good enough for it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.agents.agent import set_up
from tests.agents.fake_model.script import Step, prompt
from tests.agents.fake_model.server import FakeModel

STEPS = (
    Step(say="First a file.", shell="echo one > one.txt; echo out-one"),
    Step(say="Then another.", shell="echo two > two.txt; echo out-two"),
    Step(text="Both files are there.", chunk=4),
)


def test_plays_a_script_with_two_tools(label: str, model: FakeModel, tmp_path: Path) -> None:
    agent = set_up(label, str(tmp_path), model.url, asks=False)
    words = agent.bare(prompt(f"bare {label}", STEPS))
    done = subprocess.run(
        words,
        cwd=agent.cwd,
        env={**agent.env, "PWD": agent.cwd},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert (Path(agent.cwd, "one.txt").read_text(), Path(agent.cwd, "two.txt").read_text()) == (
        "one\n",
        "two\n",
    )
    for word in ("First a file.", "Then another.", "Both files are there."):
        assert _joined(done.stdout).count(word) >= 1, done.stdout
    asked = model.journal.scripted(f"bare {label}")
    assert [request.step for request in asked] == [0, 1, 2]
    assert [request.end for request in asked] == ["sent"] * 3
    assert model.journal.refusals(f"bare {label}") == []


def _joined(stdout: str) -> str:
    """Everything that was said, also where it came in pieces."""
    said = ""
    for line in stdout.splitlines():
        told = json.loads(line) if line.startswith("{") else {}
        if told.get("type") == "message" and told.get("role") == "assistant":  # Gemini
            said += told["content"]
    return stdout + said
