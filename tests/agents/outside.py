"""An agent that goes on with a conversation on its own, without Holdfast: somebody at another terminal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

import psutil

from tests.agents.agent import set_up
from tests.agents.fake_model.script import Step, prompt
from tests.agents.holdfast import kill
from tests.agents.install import program
from tests.agents.lab import Lab
from tests.agents.waiting import until


class Outside(NamedTuple):
    """It, and the first words of its prompt."""

    process: subprocess.Popen[bytes]
    words: str

    def tree(self) -> set[int]:
        """Its pid, and those of what it has started."""
        mine = psutil.Process(self.process.pid)
        return {mine.pid, *[below.pid for below in mine.children(recursive=True)]}

    def die(self) -> None:
        """SIGKILL to the agent itself, not to its tools; it is gone when this returns."""
        kill(psutil.Process(self.process.pid))
        self.process.wait()


def go_on(lab: Lab, native_id: str, steps: Sequence[Step], cwd: str | None = None) -> Outside:
    """Begin a turn in that conversation, with every tool allowed."""
    set_up(lab.label, os.path.dirname(lab.agent.home), lab.model.url, asks=False)
    words = lab.words()
    where = cwd or lab.agent.cwd
    argv = _argv(lab.label, native_id, prompt(words, steps))
    with open(os.path.join(lab.agent.home, "outside.err"), "ab") as said:
        process = subprocess.Popen(
            argv,
            env={**lab.agent.env, "PWD": where},
            cwd=where,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    return Outside(process, words)


def done(outside: Outside) -> None:
    """Until it has left, which must be well."""
    until(lambda: outside.process.poll() is not None, "the agent outside leaves", 120)
    assert outside.process.returncode == 0


def _argv(label: str, native_id: str, said: str) -> list[str]:
    agent, one = label.partition("-")[0], program(label)
    if agent == "claude":
        stream = ("--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions")
        return [one, "-p", said, *stream, "--resume", native_id]
    if agent == "codex":
        return [one, "exec", "--json", "--skip-git-repo-check", "resume", native_id, said]
    if agent == "gemini":
        modes = ("--approval-mode", "yolo", "--output-format", "stream-json")
        return [program("node"), one, *modes, "--resume", native_id, "-p", said]
    if agent == "opencode":
        return [one, "run", "--format", "json", "--session", native_id, said]
    return [program("node"), one, "--output-format", "stream-json", "--session", native_id, "-p", said]
