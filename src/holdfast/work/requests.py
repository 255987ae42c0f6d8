"""What people ask of a running task: answers to its permissions, and that it stop.

Both are records of the session's log, so they reach whoever drives the task, now or after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.drive.driver import Decision
from holdfast.errors import NotFound
from holdfast.model.asking import unanswered
from holdfast.model.event import Event, NewEvent, Origin

CANCEL = "cancel_requested"


class Requests(NamedTuple):
    """All that was asked so far."""

    answers: dict[str, Decision]  # by the ask's id
    cancels: tuple[str, ...]  # by whom


def is_request(event: Event) -> bool:
    """Whether somebody asks something of a task with it, other than its agent."""
    if event.kind == "notice":
        return event.body.get("code") == CANCEL
    return event.kind == "permission" and event.body.get("by") not in (None, "policy")


def requests(events: Iterable[Event]) -> Requests:
    """What the records of one task ask of it; of two answers to one ask the first counts."""
    answers: dict[str, Decision] = {}
    cancels: list[str] = []
    for event in events:
        body = event.body
        if event.replayed:
            continue
        if event.kind == "permission" and body.get("answer") is None:
            answers.pop(str(body.get("ask")), None)  # an agent may use an id again once it was answered
        elif event.kind == "permission" and body["answer"] in ("allow", "deny"):
            answers.setdefault(str(body.get("ask")), body["answer"])
        elif event.kind == "notice" and body.get("code") == CANCEL:
            cancels.append(str(body.get("by")))
    return Requests(answers, tuple(cancels))


def cancel(by: str) -> NewEvent:
    """The record that asks a task to stop."""
    return NewEvent("notice", {"text": f"{by} asked the task to stop", "code": CANCEL, "by": by})


def waiting(events: Iterable[Event]) -> list[Event]:
    """The permissions of one task that wait for an answer, oldest first."""
    return unanswered((e, e.body) for e in events if e.kind == "permission" and not e.replayed)


def answer(asked: Event, decision: Decision, by: str) -> NewEvent:
    """The record that answers a permission; the log takes one for each, whoever was second is told so."""
    origin = Origin("holdfast", str(asked.task), f"answer:{asked.seq}")
    return NewEvent("permission", {**asked.body, "answer": decision, "by": by}, origin=origin)


def choose(asked: list[Event], call: str | None, task: str) -> list[Event]:
    """Which of the waiting permissions are meant: the one of that call, or all."""
    found = [
        event for event in asked if call is None or call in (event.body.get("call"), event.body.get("ask"))
    ]
    if not found:
        raise NotFound(f"task {task} waits for no permission" + (f" for {call}" if call else ""))
    return found
