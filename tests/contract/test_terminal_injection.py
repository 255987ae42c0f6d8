"""Whatever agents, other tools and names on disk hold, no command prints what a terminal would obey."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import holdfast.cli
from holdfast.cli.main import COMMANDS
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.store.store import Store
from tests.support.claude_transcripts import Made
from tests.support.terminal import HOLDFAST, Terminal

# A title of the window, a cleared screen, a C1 sequence, reordered text, an erased line, a bell.
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\u2066\x7f\x08\rmore\u2028"
NAME = "\x1b[2J\x9b31m\u202e"  # what a file system and a command line take
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
ID = "00000001-1111-4111-8111-111111111111"


@pytest.fixture
async def terminal(home: Home, store: Store, tmp_path: Path) -> Terminal:
    """A home in which everything that can be hostile is."""
    projects = tmp_path / f"claude{NAME}" / "projects" / f"-w{NAME}"
    projects.mkdir(parents=True)
    made = Made(projects, ID)
    made.user(EVIL)
    made.calls("c1")
    made.place()
    (projects / f"{NAME}.jsonl").write_text('{"type":"user"}\n')
    work = tmp_path / f"work{NAME}"
    work.mkdir()
    session = await store.create_session("claude", cwd=str(work), title="t", key="k")
    await store.see_token(session.id, "claude", ID)
    events = [
        NewEvent("user", {"text": EVIL}),
        NewEvent("assistant", {"text": EVIL}),
        NewEvent("thinking", {"text": EVIL}),
        NewEvent("tool_progress", {"call": EVIL, "name": EVIL, "input": {"command": EVIL}}),
        NewEvent("tool_summary", {"call": EVIL, "name": EVIL, "outcome": "ok", "output": EVIL}),
        NewEvent("permission", {"ask": EVIL, "call": EVIL, "name": EVIL, "input": EVIL}),
        NewEvent("notice", {"text": EVIL, "code": "x"}),
        NewEvent("error", {"text": EVIL, "code": "x"}),
    ]
    await store.commit(Commit(session.id, events))
    found = Terminal(home, str(work))
    found.env["CLAUDE_CONFIG_DIR"] = str(projects.parent.parent)
    agent = tmp_path / f"agent{NAME}"
    agent.write_text(f"#!/bin/sh\nprintf '%s' '{EVIL}' >&2\nprintf '%s\\n' '{EVIL}'\nexit 3\n")
    agent.chmod(0o755)
    found.config(f"[agents.odd]\ncommand = [{json.dumps(str(agent))}]\ntitle = {json.dumps(EVIL)}\n")
    return found


WALKS: dict[str, list[list[str]]] = {
    "init": [[]],
    "up": [["--host", NAME]],
    "run": [["-a", "odd", EVIL], ["-a", NAME, "x"]],
    "tasks": [[], ["--session", NAME]],
    "status": [[]],
    "answer": [[NAME, "allow"]],
    "cancel": [[NAME]],
    "verdict": [["k"], [NAME]],
    "resume": [["k", "--", EVIL], [NAME, "x"]],
    "trust": [["k", "--reason", "because"], [NAME, "--reason", "x"]],
    "redispatch": [[], [NAME]],
    "agents": [[]],
    "ls": [[], ["--empty"]],
    "show": [["k"], [NAME]],
    "log": [["k"], [NAME]],
    "history": [["claude", ID], ["claude", NAME], [NAME, "x"]],
    "inspect": [["claude", ID], ["claude", NAME]],
    "import": [["claude"], ["claude", NAME], [NAME]],
    "archive": [["k"], [NAME]],
    "unarchive": [["k"], [NAME]],
    "rm": [["k"], [NAME]],
    "restore": [["k"], [NAME]],
    "doctor": [["self"], [NAME], ["hapi", f"/{NAME}"], ["hermes", f"/{NAME}"]],
    "logins": [[], ["revoke", NAME]],
    "config": [[]],
    "service": [["status"]],
    "notify": [[], ["test", NAME]],
    "completion": [["bash"], [NAME]],
    "complete": [["--", "show", ""], ["--", NAME]],
}
OTHERS = {"demo", "token", "node", "down", "open"}  # print nothing that is not ours, or need a hub


def printed(terminal: Terminal, *words: str) -> str:
    done = subprocess.run(
        [*HOLDFAST, *words],
        env={**terminal.env, "PYTHONUTF8": "1"},
        cwd=terminal.cwd,
        capture_output=True,
        timeout=120,
    )
    return (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
async def test_no_command_prints_what_a_terminal_would_obey(terminal: Terminal) -> None:
    try:
        said = {}
        for command, walks in WALKS.items():
            for words in walks:
                for more in ([], ["--json"]) if NAME not in words else ([],):
                    # before the words: some end with `--`
                    said[command, *words, *more] = printed(terminal, command, *more, *words)
        for walked, text in said.items():
            assert not OBEYED.search(text), (walked, text)
            assert "Traceback" not in text, (walked, text)
        assert "more" in said["log", "k"] and "\\u009b" in said["log", "k", "--json"]
        event = json.loads(said["log", "k", "--json"].splitlines()[2])
        assert event["body"]["text"] == EVIL  # escaped, not changed
        assert not OBEYED.search(printed(terminal, NAME))
    finally:
        terminal.end_all()


def test_every_command_is_walked() -> None:
    assert set(COMMANDS) - OTHERS <= set(WALKS)


def test_all_that_is_printed_goes_through_the_function_that_cleans() -> None:
    folder = Path(str(next(iter(holdfast.cli.__path__))))
    for path in folder.rglob("*.py"):
        if path.name == "output.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            calls = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            assert not calls, f"{os.path.relpath(path, folder)}: use output.text or output.note"
