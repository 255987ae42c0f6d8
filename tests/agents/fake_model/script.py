"""Scripts: what a prompt tells the fake model to do, and which step of it is due."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

Who = Literal["user", "model", "result", "other"]

CARRIED = re.compile(r"<<(\[.*?\])>>", re.S)


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One tool call: a command for the agent's own shell tool, or any tool by name."""

    shell: str | None = None
    tool: str | None = None
    args: dict[str, Any] = {}


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One reply of the model; what is given comes in this order: hang, think, text or say, calls."""

    hang: float = 0.0  # seconds of silence after the reply has begun
    think: str | None = None
    text: str | None = None
    say: str | None = None  # text before calls
    chunk: int = 8  # characters a piece of text
    delay: float = 0.0  # seconds after each piece
    shell: str | None = None
    tool: str | None = None
    args: dict[str, Any] = {}
    calls: tuple[Call, ...] = ()  # several at once
    status: int | None = None  # an HTTP error instead of a reply
    message: str = "scripted error"
    drop: bool = False  # close the connection half way through the text

    def all_calls(self) -> tuple[Call, ...]:
        """The calls of this step, however they were written."""
        if self.shell is not None or self.tool is not None:
            return (Call(shell=self.shell, tool=self.tool, args=self.args), *self.calls)
        return self.calls


class Turn(NamedTuple):
    """One piece of a request's history, whatever the protocol."""

    who: Who
    text: str = ""


class Due(NamedTuple):
    """The step that a request asks for, and where it stands."""

    step: Step
    at: int
    prompts: tuple[str, ...]  # every prompt of the history that carries a script, in order


def prompt(words: str, steps: Sequence[Step]) -> str:
    """A prompt that carries these steps."""
    return f"{words} <<{msgspec.json.encode(steps).decode()}>>"


def due(turns: Iterable[Turn]) -> Due:
    """The step to play: as many as the model has spoken since the last prompt with a script.

    What the model said without a user or a result in between is one reply: some protocols split it.
    """
    prompts: list[str] = []
    spoken = 0
    before: Who | None = None
    for turn in turns:
        if turn.who == "user" and CARRIED.search(turn.text):
            prompts.append(turn.text)
            spoken = 0
        elif turn.who == "model" and before != "model":
            spoken += 1
        if turn.who != "other":
            before = turn.who
    if not prompts:
        return Due(Step(text="no script"), 0, ())
    return Due(_step(_steps(prompts[-1]), spoken), spoken, tuple(prompts))


def _steps(text: str) -> list[Step]:
    carried = CARRIED.findall(text)[-1]  # the last: Gemini joins user turns that follow each other
    last: Exception | None = None
    # `opencode run "a b"` quotes its arguments once more.
    for written in (carried, carried.replace('\\"', '"')):
        try:
            return msgspec.json.decode(written, type=list[Step])
        except msgspec.MsgspecError as problem:
            last = last or problem
    return [Step(status=400, message=f"bad script: {last}")]


def _step(steps: list[Step], index: int) -> Step:
    return steps[index] if index < len(steps) else Step(text=f"beyond the script ({index})")
