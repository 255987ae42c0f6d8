"""What a run did, from its records: the stuff that a brief is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast.git.program import Changes
from holdfast.model.event import Event
from holdfast.model.task import Task
from holdfast.resume.survivors import Process


class Call(msgspec.Struct):
    """One tool call and how it ended; `interrupted`: nobody knows."""

    name: str
    input: Any
    outcome: str = "interrupted"
    refused: bool = False  # it was asked for and never allowed, so it has not run


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """One run that did not come to its end, and what is left of it."""

    session: str
    task: str
    status: str
    reason: str | None
    asked: str
    before: tuple[str, ...] = ()  # what was asked before, in this session and those that it goes on from
    calls: tuple[Call, ...] = ()
    said: str | None = None  # its last words
    running: tuple[Process, ...] = ()
    folder: str | None = None
    changes: Changes | None = None  # None: no git there


def tell(
    task: Task,
    before: Sequence[str],
    events: Iterable[Event],
    *,
    running: tuple[Process, ...] = (),
    folder: str | None = None,
    changes: Changes | None = None,
) -> Story:
    """The story of a task; `before`: what was asked earlier, `events`: may be those of its whole session."""
    calls: dict[str, Call] = {}
    waiting: dict[str, str] = {}  # asks that nobody has answered: their calls
    said = None
    begun = False
    for event in events:
        if event.task != task.id:
            continue
        body = event.body
        begun |= event.kind == "user" and (not event.replayed or task.prompt in str(body.get("text")))
        if event.replayed and not begun:
            continue  # what came before the task; what its own store told in the end comes behind
        call = str(body.get("call"))
        if event.kind == "tool_progress":
            calls[call] = Call(str(body.get("name")), body.get("input"))
        elif event.kind == "tool_summary" and call in calls:
            calls[call].outcome = str(body.get("outcome"))
        elif event.kind == "assistant":
            said = str(body.get("text"))
        elif event.kind == "permission" and body.get("answer") is None:
            waiting[str(body.get("ask"))] = call
        elif event.kind == "permission" and body.get("answer") == "allow":
            waiting.pop(str(body.get("ask")), None)
    for call in waiting.values():
        if call in calls:
            calls[call].refused = True
    return Story(
        session=task.session,
        task=task.id,
        status=task.status,
        reason=task.reason,
        asked=task.prompt,
        before=tuple(before),
        calls=tuple(calls.values()),
        said=said,
        running=running,
        folder=folder,
        changes=changes,
    )
