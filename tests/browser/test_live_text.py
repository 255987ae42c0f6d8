"""Text that is being said: there before it is whole, whenever one comes to look, and gone when it is."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Window, shoot
from tests.browser.hub_process import HubProcess
from tests.hub import recorded_claude

CLAUDE = Path(__file__).parents[1] / "fixtures" / "streams" / "claude-2.1.325" / "live_text.txt"


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Once it is there, the agent goes on with its sentence."""
    return tmp_path / "gate"


@pytest.fixture
def claude_hub(tmp_path: Path, gate: Path) -> Iterator[HubProcess]:
    """A hub whose Claude Code stops in the middle of its last sentence."""
    hub = HubProcess(str(tmp_path))
    command = json.dumps([sys.executable, recorded_claude.__file__, str(CLAUDE), "3 word", str(gate)])
    os.makedirs(hub.home)
    with open(os.path.join(hub.home, "config.toml"), "w") as file:
        file.write(f"[agents.claude]\ncommand = {command}\n")
    hub.start()
    yield hub
    gate.touch()
    hub.stop()


def test_the_text_of_claude_code_appears_as_it_streams(
    claude_hub: HubProcess, gate: Path, window: Window
) -> None:
    """Also when one comes to the session in the middle of it, and after the hub was killed."""
    page = window.open(claude_hub, "/")
    told = claude_hub.dispatch("Say it.", [], agent="claude")
    page.goto(f"{claude_hub.page_url}/#/s/{told['session']}")
    live = page.locator("article.live")
    expect(live).to_contain_text("It is done 😀, word0 word1 word2 word3 word")
    page.goto(f"{claude_hub.page_url}/#/")
    expect(live).to_have_count(0)
    page.goto(f"{claude_hub.page_url}/#/s/{told['session']}")  # while nothing more is said
    expect(live).to_contain_text("word2 word3 word")
    expect(live).to_have_count(1)
    claude_hub.kill()
    expect(page.locator("#line")).to_contain_text("connection lost")
    expect(live).to_have_count(0)
    claude_hub.start()
    expect(live).to_contain_text("word2 word3 word")
    shoot(page, "live-claude")
    gate.touch()
    assert claude_hub.ended(told["task"]) == "succeeded"
    expect(live).to_have_count(0)
    expect(page.locator("article.assistant")).to_have_count(2)
    expect(page.locator("article.assistant").last).to_contain_text("word7 end.")
