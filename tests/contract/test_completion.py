"""Completion as a shell asks for it: a real bash, and the words that it is given."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.cli.main import COMMANDS
from holdfast.home import Home
from tests.support.terminal import HOLDFAST, Terminal


@pytest.fixture
def terminal(home: Home, tmp_path: Path) -> Terminal:
    return Terminal(home, str(tmp_path))


def offered(terminal: Terminal, *words: str) -> list[str]:
    said = terminal.give("complete", "--", *words).stdout
    return [line.split("\t")[0] for line in said.splitlines()]


def in_bash(terminal: Terminal, line: str) -> list[str]:
    """What a real bash would offer behind the line."""
    asked = f"""
        holdfast() {{ {" ".join(HOLDFAST)} "$@"; }}
        eval "$(holdfast completion bash)"
        COMP_LINE={line!r} COMP_POINT={len(line)}
        _holdfast
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", asked], env=terminal.env, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split()


def test_commands_options_and_values(terminal: Terminal) -> None:
    assert offered(terminal, "") == list(COMMANDS)
    assert offered(terminal, "red") == ["redispatch"]
    assert "--permissions" in offered(terminal, "run", "--")
    assert offered(terminal, "run", "--permissions", "") == ["ask", "allow", "deny"]
    assert offered(terminal, "answer", "t1", "d") == ["deny"]
    assert offered(terminal, "run", "-a", "de") == ["demo"]
    assert offered(terminal, "history", "cod") == ["codex"]
    assert offered(terminal, "nonsense", "") == []


def test_without_a_home_there_is_nothing_to_offer_and_nothing_is_made(terminal: Terminal) -> None:
    before = sorted(Path(terminal.home.path).iterdir())
    assert offered(terminal, "log", "") == []
    assert sorted(Path(terminal.home.path).iterdir()) == before


def test_sessions_by_key_and_id_and_tasks(terminal: Terminal) -> None:
    task = terminal.run({"say": "x"}, words=["--key", "forge:dev:a/b:7"])
    assert offered(terminal, "log", "") == ["forge:dev:a/b:7", task["session"]]
    assert offered(terminal, "verdict", task["session"][:4]) == [task["session"]]
    assert offered(terminal, "cancel", "") == [task["id"]]


def test_bash_completes_commands_and_keys_with_colons(terminal: Terminal) -> None:
    terminal.run({"say": "x"}, words=["--key", "forge:dev:a/b:7"])
    assert in_bash(terminal, "holdfast ver") == ["verdict"]
    assert in_bash(terminal, "holdfast log for") == ["forge:dev:a/b:7"]
    assert in_bash(terminal, "holdfast log forge:d") == ["dev:a/b:7"]


def test_bash_runs_nothing_that_is_in_a_key(terminal: Terminal) -> None:
    """What is offered is put on the command line, and run with it."""
    key = "a:$(touch ran)`touch ran`;touch ran *"
    terminal.run({"say": "x"}, words=["--key", key])
    asked = f"""
        holdfast() {{ {" ".join(HOLDFAST)} "$@"; }}
        eval "$(holdfast completion bash)"
        COMP_LINE='holdfast show a:' COMP_POINT=16
        _holdfast
        eval "set -- a:${{COMPREPLY[0]}}"
        printf '%s\\n' "$#" "$1"
    """
    done = subprocess.run(
        ["bash", "-c", asked],
        env=terminal.env,
        cwd=terminal.cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == f"1\n{key}\n"
    assert not Path(terminal.cwd, "ran").exists()
