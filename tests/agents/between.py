"""Something between a laboratory's Holdfast and its agent, which can be turned on."""

from __future__ import annotations

import json
import os
import sys

from tests.agents import stand_in
from tests.agents.install import program
from tests.agents.lab import Lab


class Between:
    """`tests.agents.stand_in` in the config in the agent's place."""

    def __init__(self, lab: Lab, how: str):
        self._flag = os.path.join(lab.agent.home, f"{how}.flag")
        runtime = [program("node")] if lab.agent.name in ("gemini", "kimi") else []
        words = [sys.executable, stand_in.__file__, how, self._flag, *runtime, program(lab.label)]
        config = os.path.join(lab.holdfast.home, "config.toml")
        with open(config) as file:
            lines = file.read().splitlines(keepends=True)
        with open(config, "w") as file:
            file.writelines(
                f"command = {json.dumps(words)}\n" if line.startswith("path = ") else line for line in lines
            )

    def turn_on(self) -> None:
        """From the next start of the agent."""
        with open(self._flag, "w"):
            pass

    def turn_off(self) -> None:
        """The agent is itself again."""
        os.unlink(self._flag)

    def times(self) -> int:
        """How often it has done what it does."""
        with open(self._flag) as file:
            return len(file.readlines())
