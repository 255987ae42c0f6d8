"""What an agent's environment has, and what the config says."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import errors, settings
from holdfast.runner.agent_environment import environment


def test_only_what_is_named_is_kept_and_the_marks_win() -> None:
    base = {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "AWS_SECRET": "s",
        "ANTHROPIC_API_KEY": "k",
        "CLAUDE_CODE_SKIP_PROMPT_HISTORY": "1",
        "HOLDFAST_TASK": "outer",
        "TERM": "xterm",
    }
    made = environment(base, ["ANTHROPIC_*"], {"A": "1", "B": "1"}, {"B": "2"}, task="t1", session="s1")
    assert made == {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "ANTHROPIC_API_KEY": "k",
        "A": "1",
        "B": "2",
        "TERM": "dumb",
        "HOLDFAST_TASK": "t1",
        "HOLDFAST_SESSION": "s1",
    }


def test_settings_are_read() -> None:
    read = settings.read({"run": {"at_once": 2}, "agents": {"claude": {"env": {"A": "1"}, "at_once": 1}}})
    assert (read.run.at_once, read.of("claude").at_once, read.of("codex").at_once) == (2, 1, None)
    assert read.run.permissions == "ask"


@pytest.mark.parametrize(
    "config",
    [
        {"run": {"at_onec": 3}},
        {"run": {"at_once": 0}},
        {"run": {"permissions": "maybe"}},
        {"run": 3},
        {"agents": 3},
        {"agents": {"claude": {"env": {"A": 1}}}},
    ],
)
def test_a_wrong_setting_is_one_clear_line(config: dict[str, Any]) -> None:
    with pytest.raises(errors.BadInput) as caught:
        settings.read(config)
    assert caught.value.message.startswith("config.toml: ") and "\n" not in caught.value.message
