"""Add an agent by one folder: entry, driver and reader in `agents/<name>/`, and no other change."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.home import Home
from tests.support import parrot
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(home: Home, tmp_path: Path) -> Terminal:
    """A terminal that uses a copy of the package with one more folder in `agents/`."""
    package = tmp_path / "package" / "holdfast"
    shutil.copytree(os.path.dirname(holdfast.__file__), package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(os.path.dirname(parrot.__file__), package / "agents" / "parrot")
    for folder in ("work", "parrot"):
        (tmp_path / folder).mkdir()
    terminal = Terminal(home, str(tmp_path / "work"))
    terminal.env["PYTHONPATH"] = str(package.parent)
    terminal.env["PARROT_HOME"] = str(tmp_path / "parrot")
    return terminal


def _texts(terminal: Terminal, *words: str) -> list[tuple[str, str]]:
    """The texts in the JSON lines that a command prints."""
    events: list[dict[str, Any]] = list(map(json.loads, terminal.give(*words, "--json").stdout.splitlines()))
    return [(e["kind"], e["body"]["text"]) for e in events if e["kind"] in ("user", "assistant")]


def test_an_agent_is_added_by_one_folder(terminal: Terminal, tmp_path: Path) -> None:
    names = [agent["name"] for agent in terminal.asked("agents")]
    assert names == sorted(names) and "parrot" in names and "claude" in names

    terminal.give("run", "-a", "parrot", "hello")
    task = terminal.last()
    assert (task["status"], task["delivery"]) == ("succeeded", "accepted")
    assert task["outcome"]["answer"] == "HELLO"

    terminal.give("resume", task["session"], "again")
    resumed = terminal.last()
    assert resumed["status"] == "succeeded" and resumed["session"] == task["session"]
    said = [("user", "hello"), ("assistant", "HELLO"), ("user", "again"), ("assistant", "AGAIN")]
    assert _texts(terminal, "log", task["session"]) == said

    (file,) = (tmp_path / "parrot").iterdir()
    inspection = terminal.asked("inspect", "parrot", file.stem)
    assert inspection["sound"] and (inspection["turns"], inspection["last_complete"]) == (2, 2)
    assert _texts(terminal, "history", "parrot", str(file)) == said


def test_its_own_sessions_are_imported(terminal: Terminal, tmp_path: Path) -> None:
    terminal.give("run", "-a", "parrot", "hello")
    other = Terminal(Home(str(tmp_path / "other")), terminal.cwd)
    other.env = {**terminal.env, "HOLDFAST_HOME": other.home.path}
    other.give("import", "parrot")
    (session,) = other.asked("ls")
    assert session["agent"] == "parrot"
    assert _texts(other, "log", session["id"]) == [("user", "hello"), ("assistant", "HELLO")]
