"""The line at the end of a run."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.cli.summary import summary, time_text

TASK: dict[str, Any] = {
    "id": "t1",
    "status": "succeeded",
    "started_at": "2026-01-01T00:00:00.000000Z",
    "ended_at": "2026-01-01T00:03:05.000000Z",
    "outcome": {"usage": {"input_tokens": 40000, "output_tokens": 1200, "cost_usd": 0.2}, "branch": "main"},
}


def test_it_has_time_tokens_cost_and_branch() -> None:
    line = summary(TASK, {"worktree": None})
    assert line == "succeeded in 3m 5s · 41k tokens · $0.20 · branch main · nothing left running"


def test_it_names_what_is_left_and_the_command_that_ends_it() -> None:
    left = {"survivors": [{"pid": 7, "command": "sleep 60"}], "left": ["a", "b"]}
    line = summary({**TASK, "status": "failed", "outcome": left}, {"worktree": {"branch": "holdfast/s1"}})
    assert "branch holdfast/s1 · 2 uncommitted files" in line
    assert line.endswith("left running: sleep 60 (7); `holdfast cancel t1` ends them")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-3, "0s"), (0.4, "0s"), (59.6, "1m 0s"), (3599, "59m 59s"), (7810, "2h 10m")]
)
def test_times_are_short_and_never_negative(seconds: float, shown: str) -> None:
    assert time_text(seconds) == shown
