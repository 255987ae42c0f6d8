"""A conversation id that an agent cannot have never reaches its command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.home import Home
from holdfast.store.store import Store
from tests.support.terminal import Terminal

OPTION = "--dangerously-skip-permissions"


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
@pytest.mark.parametrize("how", ["--anyway", "--fork"])
async def test_a_token_of_an_earlier_version_that_is_an_option_is_not_passed_on(
    home: Home, store: Store, tmp_path: Path, how: str
) -> None:
    agent = tmp_path / "claude"
    agent.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>"{tmp_path}/argv"\n')
    agent.chmod(0o755)
    session = await store.create_session("claude", cwd=str(tmp_path))
    await store.see_token(session.id, "claude", OPTION)
    Path(home.config).write_text(f'[agents.claude]\npath = "{agent}"\n')
    terminal = Terminal(home, str(tmp_path))
    try:
        verdict = terminal.asked("verdict", session.id)
        assert verdict["action"] == "fresh" and "bad_native_id" in [r["code"] for r in verdict["reasons"]]
        refused = terminal.start("resume", session.id, how, "--", "go on")
        assert "not" in refused.communicate(timeout=60)[1] and refused.returncode != 0
    finally:
        terminal.end_all()
    assert set((tmp_path / "argv").read_text().split()) <= {"--version"}  # no agent was started
