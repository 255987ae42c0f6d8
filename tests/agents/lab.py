"""One agent, one Holdfast and the fake model in one folder; and undisturbed runs to compare with."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.agents.agent import set_up
from tests.agents.events import Event, plain
from tests.agents.fake_model.script import Step, prompt
from tests.agents.fake_model.server import FakeModel
from tests.agents.holdfast import Holdfast, Task
from tests.agents.scripts import ANSWER
from tests.agents.waiting import until

Json = dict[str, Any]


class Lab:
    """An agent that only knows the fake model, under a Holdfast of its own."""

    def __init__(self, label: str, folder: str, model: FakeModel):
        self.label = label
        self.model = model
        self.agent = set_up(label, folder, model.url)
        self.holdfast = Holdfast(os.path.join(folder, "holdfast"), self.agent)
        self._number = iter(range(1, 1 << 30))
        self._name = os.path.basename(folder)

    def words(self) -> str:
        """The beginning of a prompt that no other has."""
        return f"task {next(self._number)} of {self._name}"

    def run(self, steps: Sequence[Step], permissions: str = "allow", session: str | None = None) -> Running:
        """Start a task that plays these steps."""
        words = self.words()
        said = prompt(words, steps)
        task = self.holdfast.run(said, session=session, permissions=permissions)
        return Running(self, words, said, task)

    def plain(self, log: Sequence[Json], said: str) -> list[Event]:
        """A log as it is compared: without this run's words and folders."""
        hide = {_inner(said): "PROMPT", self.agent.cwd: "CWD", self.agent.home: "HOME"}
        return plain(log, hide=hide)

    def wait_for_file(self, name: str) -> None:
        """Until a tool has made it."""
        path = os.path.join(self.agent.cwd, name)
        until(lambda: os.path.exists(path), f"{name} is there")

    def open_gate(self) -> None:
        """Let a gated tool go on."""
        with open(os.path.join(self.agent.cwd, "gate"), "w"):
            pass

    def has_file(self, name: str) -> bool:
        """Whether a tool has made it."""
        return os.path.exists(os.path.join(self.agent.cwd, name))


class Running:
    """A task under way."""

    def __init__(self, lab: Lab, words: str, said: str, task: Task):
        self.lab = lab
        self.words = words
        self.said = said
        self.task = task
        self.begun = time.time()

    def wait_for_step(self, step: int) -> None:
        """Until the model has begun to play a step."""
        until(lambda: step in self.steps(), f"the model plays step {step}")

    def steps(self) -> list[int]:
        """The steps that the model was asked for, in order."""
        return [
            request.step
            for request in self.lab.model.journal.scripted(self.words)
            if request.step is not None
        ]

    def wait_for_ask(self) -> None:
        """Until the agent waits for a permission."""

        def look() -> bool:
            asked = [event["body"]["answer"] for event in self.task.log() if event["kind"] == "permission"]
            return asked.count(None) > len([answer for answer in asked if answer is not None])

        until(look, "it asks for a permission", every_s=0.1)

    def answer(self, decision: str = "allow") -> None:
        """As a person does."""
        self.lab.holdfast.call("answer", self.task.id, decision)

    def plain(self) -> list[Event]:
        """Its log as it is compared."""
        return self.as_compared(self.task.log())

    def as_compared(self, log: Sequence[Json]) -> list[Event]:
        """A part of its log so."""
        return self.lab.plain(log, self.said)


@contextmanager
def laboratory(label: str, model: FakeModel) -> Iterator[Lab]:
    """A laboratory whose processes and files go away."""
    folder = tempfile.mkdtemp(prefix=f"lab-{label}-")
    lab = Lab(label, folder, model)
    try:
        yield lab
    finally:
        lab.holdfast.close()
        print(
            f"the worker of {folder} said:\n{lab.holdfast.worker_log()}"
        )  # pytest shows it of a test that fails
        if not os.environ.get("HOLDFAST_KEEP"):
            shutil.rmtree(folder, ignore_errors=True)


class References:
    """Logs of undisturbed runs, each made once."""

    def __init__(self, model: FakeModel):
        self._model = model
        self._made: dict[tuple[str, str, str], list[Event]] = {}

    def log(self, label: str, steps: Sequence[Step], permissions: str = "allow") -> list[Event]:
        """What a run of these steps comes to when nothing is killed; asks are answered with allow."""
        key = (label, prompt("", steps), permissions)
        if key not in self._made:
            with laboratory(label, self._model) as lab:
                lab.open_gate()
                running = lab.run(steps, permissions)
                if permissions == "ask":
                    for _ in [call for step in steps for call in step.all_calls()]:
                        running.wait_for_ask()
                        running.answer()
                running.task.ended_as("succeeded")
                self._made[key] = running.plain()
        return self._made[key]


def next_prompt(lab: Lab, first: Running) -> None:
    """The next prompt is taken in the same session, and the model is shown the first one before it."""
    if lab.agent.name == "gemini":
        _next_minute(first.begun)
    second = lab.run(ANSWER, session=first.task.session)
    ended = second.task.ended_as("succeeded")
    assert ended["outcome"]["answer"] == ANSWER[0].text
    shown = lab.model.journal.scripted(second.words)[-1].prompts
    assert first.words in shown[0] and second.words in shown[-1], shown


def _next_minute(begun: float) -> None:
    """Gemini CLI 0.61 destroys a session that is loaded in the UTC minute in which it was made."""
    while int(time.time() // 60) == int(begun // 60):
        time.sleep(0.5)


def _inner(text: str) -> str:
    """A text as it stands inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
