"""What a step comes to for one agent, and the pieces in which it is sent."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple, Union

from tests.agents.fake_model.script import Step, Turn
from tests.agents.fake_model.tools import Tools, shell_call

SIDE = "fake title"  # what every request without tools gets: titles, summaries


class Pause(NamedTuple):
    """Nothing is sent for so long."""

    seconds: float


class Drop(NamedTuple):
    """The connection is closed here."""


Piece = Union[bytes, Pause, Drop]


class Asked(NamedTuple):
    """A request, whatever the protocol."""

    turns: list[Turn]
    tools: Tools
    stream: bool
    refused: str | None = None  # why the real API would answer 400


class MadeCall(NamedTuple):
    """A call as the model makes it."""

    id: str
    name: str
    args: dict[str, Any]


class Reply(NamedTuple):
    """A reply, whatever the protocol."""

    think: str | None
    text: str | None
    calls: tuple[MadeCall, ...]
    chunk: int = 8
    delay: float = 0.0
    hang: float = 0.0
    drop: bool = False

    def opened(self) -> Iterator[Piece]:
        """What follows the first event."""
        if self.hang:
            yield Pause(self.hang)
        if self.drop and not self.text:
            yield Drop()

    def deltas(self, text: str) -> Iterator[str | Pause | Drop]:
        """A text in its pieces; half of them if the connection drops."""
        cut = [text[at : at + self.chunk] for at in range(0, len(text), self.chunk)]
        for piece in cut[: len(cut) // 2] if self.drop else cut:
            yield piece
            if self.delay:
                yield Pause(self.delay)
        if self.drop:
            yield Drop()


def reply(step: Step, tools: Tools) -> Reply:
    """A step for an agent with these tools."""
    calls = []
    for call in step.all_calls():
        if call.shell is not None:
            name, args = shell_call(tools, call.shell, call.args)
        else:
            name, args = call.tool or "no_tool", call.args
        calls.append(MadeCall(f"call_{uuid.uuid4().hex[:24]}", name, args))
    text = step.text if step.text is not None else step.say
    return Reply(step.think, text, tuple(calls), step.chunk, step.delay, step.hang, step.drop)


def side_reply(text: str = SIDE) -> Reply:
    """What a request without tools gets."""
    return Reply(None, text, ())


def sse(data: Any, event: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def texts(content: Any) -> str:
    """The text of a message's content, in any of the shapes that protocols give it."""
    if isinstance(content, str):
        return content
    found = [part if isinstance(part, str) else part.get("text") or "" for part in content or []]
    return "\n".join(found)
