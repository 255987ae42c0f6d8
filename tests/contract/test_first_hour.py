"""The first hour: README, quickstart and guide, typed word for word in an empty home.

A line of a ```sh block is a command. What its comment has in `backquotes` must be in the output.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.home import Home
from tests.support.terminal import DEADLINE_S, Terminal

ROOT = Path(__file__).parents[2]
# Installing needs a network, and `make test` is this; the tour has a test of its own (test_tour.py).
NOT_TYPED = re.compile(r"uv tool install |make |export PATH=|holdfast demo\b")


class TypedLine(NamedTuple):
    """One line of a document."""

    number: int
    command: str
    expected: list[str]


def lines(document: str) -> list[TypedLine]:
    found, inside = [], False
    for number, line in enumerate((ROOT / document).read_text().splitlines(), 1):
        if line.startswith("```"):
            inside = line == "```sh"
        elif inside and line.strip() and not NOT_TYPED.match(line):
            command, _, comment = line.partition(" # ")
            found.append(TypedLine(number, command.strip(), re.findall("`([^`]+)`", comment)))
    return found


class Newcomer:
    """Somebody with an empty home, a shell and the documents."""

    def __init__(self, folder: Path):
        self.home = folder / "home"
        self.home.mkdir()
        self.terminal = Terminal(Home(str(self.home / ".local/share/holdfast")), str(self.home))
        path = f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"
        self.env = {"HOME": str(self.home), "PATH": path, "PYTHONUTF8": "1", "LANG": "C.UTF-8"}
        self.terminal.env = self.env
        self.hub: subprocess.Popen[str] | None = None
        self.detached = False  # the last command left an agent to itself

    def type(self, line: TypedLine) -> None:
        if line.command == "holdfast up":
            self._start_hub()
            return
        if self.detached:
            self._wait_until_it_asks()
        self.detached = "--detach" in line.command
        words = ["bash", "-c", line.command]
        done = subprocess.run(
            words,
            env=self.env,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            stdin=subprocess.DEVNULL,
        )
        told = done.stdout + done.stderr
        assert done.returncode == 0, (line, told)
        for text in line.expected:
            assert text in told, (line, told)

    def _wait_until_it_asks(self) -> None:
        """A person reads on when the agent has asked; a detached one needs a moment to."""

        def ready() -> bool:
            tasks = self.terminal.tasks()
            return all(t["asks"] or t["status"] not in ("queued", "running") for t in tasks)

        self.terminal.until(ready)

    def _start_hub(self) -> None:
        self.stop_hub()
        self.hub = subprocess.Popen(
            ["bash", "-c", "exec holdfast up"],
            env=self.env,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.hub.stdout is not None
        assert self.hub.stdout.readline().startswith("http://127.0.0.1:")

    def stop_hub(self) -> None:
        if self.hub is not None:
            self.hub.terminate()
            self.hub.wait(DEADLINE_S)
            assert self.hub.stdout is not None
            self.hub.stdout.close()
            self.hub = None


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    made = Newcomer(tmp_path)
    yield made
    made.stop_hub()
    # Workers and agents were started with this HOME; nothing of it may be left running.
    mark = f"HOME={made.home}\0".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in Path("/proc", name, "environ").read_bytes():
                os.kill(int(name), 9)
        except OSError:
            continue


@pytest.mark.parametrize("document", ["README.md", "docs/quickstart.md", "docs/guide.md"])
def test_every_command_does_what_the_text_says(newcomer: Newcomer, document: str) -> None:
    found = lines(document)
    assert len(found) >= 4 and any(line.expected for line in found)
    for line in found:
        newcomer.type(line)


def test_an_install_line_names_what_is_built() -> None:
    for document in ("README.md", "docs/install.md"):
        assert "uv tool install ." in (ROOT / document).read_text()
        assert "pipx install ." in (ROOT / document).read_text()
    assert 'name = "holdfast-hub"' in (ROOT / "pyproject.toml").read_text()


def test_no_document_says_that_the_distribution_has_another_name() -> None:
    wrong = re.compile(r"(?:pip|pipx|uv tool|uv pip) (?:install|upgrade|uninstall) '?holdfast(?!-hub)\b")
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    assert [str(path) for path in sources if wrong.search(path.read_text())] == []
