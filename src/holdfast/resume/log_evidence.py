"""Our log as a witness: how the last task ended, what its stream showed, which resumes failed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec

from holdfast.model.event import Event, NewEvent
from holdfast.model.task import Task
from holdfast.model.token import Token
from holdfast.transcripts.dedupe import KnownEvents, Wording

# The codes of notices that a verdict rests on.
ATTEMPT, RESUMED, OTHER = "resume_attempt", "resumed", "other_conversation"
TRUSTED, OVERRULED = "trusted", "overruled"
ENDED_ELSEWHERE = "ended_elsewhere"  # how the tool that a session was imported from recorded its end
NOT_LAUNCHED = "not_launched"  # a task went back to the queue before an agent was started

ELSEWHERE = ("import", "store")  # where a token was seen that no task of ours has brought
_SHOWN = ("user", "tool_progress", "tool_summary")
_VARYING = re.compile(r"\d+")


class LogEvidence(msgspec.Struct, frozen=True):
    """What the log of one session says of the conversation that its token names."""

    last: Task | None = None  # the last one whose prompt came, or may have come, to the agent
    answered: bool = False  # it has an answer, and no error came in its place
    missing: bool = False  # a task must have been there, and is not recorded
    trusted: bool = False  # since it ended somebody has said that it is sound
    shown: tuple[Event, ...] = ()  # the prompts, calls and results that the agent should remember
    failures: tuple[str, ...] = ()  # of resumes of this token since one succeeded, oldest first
    trusted_by: str | None = None
    trusted_why: str | None = None
    crashed: str | None = None  # what another tool recorded of a crash, if no prompt of ours came after it


def touched(task: Task) -> bool:
    """Whether a task's prompt came to an agent, or may have; one that was only queued changed nothing."""
    return task.delivery == "accepted" or (
        task.delivery == "sent" and task.status in ("cancelled", "interrupted", "running", "unreachable")
    )


def read(events: Iterable[Event], tasks: Iterable[Task], token: Token | None) -> LogEvidence:
    """Fold a session's log; `tasks` in the order they were queued: only the last that was started counts."""
    started = [task for task in tasks if touched(task)]
    last = started[-1] if started else None
    fold = _LogReader(token, None if last is None else last.id)
    for event in events:
        fold.step(event)
    answered = last is not None and bool((last.outcome or {}).get("answer")) and last.id not in fold.erred
    missing = last is None and token is not None and token.seen_in not in ELSEWHERE
    trusted = last is not None and bool(fold.trust)
    return LogEvidence(
        last,
        answered,
        missing,
        trusted,
        tuple(fold.shown),
        tuple(fold.failures),
        trusted_by=str(fold.trust.get("by")) if trusted else None,
        trusted_why=str(fold.trust.get("reason")) if trusted else None,
        crashed=fold.crashed,
    )


def same(failure: str, other: str) -> bool:
    """Whether two failures are the same one; numbers (of processes, of lines) differ each time."""
    return _VARYING.sub("#", failure) == _VARYING.sub("#", other)


class _LogReader:
    """One pass over the log."""

    def __init__(self, token: Token | None, last: str | None):
        self.trust: dict[str, Any] = {}  # who vouches for the session, behind all of the last task
        self._last = last
        self.crashed: str | None = None
        self.erred: set[str | None] = set()  # tasks that told of an error
        self.shown: list[Event] = []
        self.failures: list[str] = []
        self._native_id = None if token is None else token.native_id
        self._trying: str | None = None  # the task whose resume is not proven yet
        self._overruled: str | None = None  # the task that was to go on whatever the verdict was

    def step(self, event: Event) -> None:
        if event.replayed:
            return
        if event.task is not None and event.task == self._last:
            self.trust = {}
        if event.kind in _SHOWN:
            if event.kind == "user":
                self.crashed = None
            self.shown.append(event)
        elif event.kind == "error":
            self.erred.add(event.task)
        elif event.kind == "notice":
            self._noted(event)
        elif event.kind == "token":
            self._named(event.body)
        elif event.kind == "task" and event.task == self._trying:
            self._moved(event.body)

    def _noted(self, event: Event) -> None:
        code, body = event.body.get("code"), event.body
        if code == ATTEMPT and body.get("native_id") == self._native_id:
            self._trying = event.task
        elif code == RESUMED and body.get("native_id") == self._native_id:
            self._trying, self.failures = None, []
            if event.task == self._overruled:
                self.shown = []  # what it had forgotten by then was known, and accepted
        elif code == NOT_LAUNCHED and event.task == self._trying:
            self._trying = None  # no agent was asked
        elif code == OTHER and event.task == self._trying:
            self._failed("the agent began another conversation instead")
        elif code == TRUSTED:
            self.trust, self.failures = body, []
        elif code == OVERRULED:
            self._overruled = event.task
        elif code == ENDED_ELSEWHERE:
            self.crashed = str(body.get("text")) if body.get("crashed") else None

    def _named(self, body: dict[str, Any]) -> None:
        """Before its token was seen there was nothing that the conversation could remember."""
        if body.get("op") == "seen" and body.get("native_id") == self._native_id:
            self.shown = []

    def _moved(self, body: dict[str, Any]) -> None:
        if body.get("op") == "status" and body.get("status") not in ("running", "unreachable"):
            self._failed(str(body.get("reason")))

    def _failed(self, why: str) -> None:
        self.failures.append(why)
        self._trying = None


# --- What an agent's stream showed us and its own store lacks: it would not remember that.

MOST = 20  # that are named
_SHORT = 200  # characters of what is named
_UNKNOWN = "interrupted"


class MemoryGap(msgspec.Struct, frozen=True):
    """One thing that is missing there."""

    kind: str  # user, tool_progress, tool_summary
    seq: int  # its record in our log
    call: str | None
    what: str
    cut: bool = False  # of the turn that was cut short, which a copy up to the last whole turn leaves out


def gap(
    shown: Iterable[Event], stored: Iterable[NewEvent], said: Wording | None = None, cut: str | None = None
) -> list[MemoryGap]:
    """The prompts, calls and results of our log that the store has not, the first ones.

    A call whose end the agent never told is a call only: there is no result to remember. `cut` is the task
    whose turn a copy leaves out.
    """
    known = KnownEvents(said)
    for event in stored:
        if not _is_made_up(event):
            known.add(event)
    told = (event for event in shown if not _is_made_up(event))
    lacks = (event for event in told if any(known.missing([_new(event)])))
    return [_named(event, cut is not None and event.task == cut) for event in islice(lacks, MOST)]


def leaves_out(
    task: str, shown: Iterable[Event], stored: Iterable[NewEvent], turns: int, said: Wording | None = None
) -> bool:
    """Whether a copy of so many turns of the store is without the prompt of that task."""
    known, number = KnownEvents(said), 0
    for event in stored:
        if event.kind == "user":
            number += 1
            if number > turns:
                break
            known.add(event)
    prompts = [event for event in shown if event.kind == "user"]
    without = [event.task for event in prompts if any(known.missing([_new(event)]))]
    return task in without


def _new(event: Event) -> NewEvent:
    return NewEvent(event.kind, event.body, origin=event.origin)


def _is_made_up(event: Event | NewEvent) -> bool:
    """Whether it is the end that is put where none was told."""
    return event.kind == "tool_summary" and event.body.get("outcome") == _UNKNOWN


def _named(event: Event, cut: bool) -> MemoryGap:
    body: dict[str, Any] = event.body
    call = body.get("call")
    what = body.get("text") or f"{body.get('name')} {body.get('input') or body.get('output') or ''}"
    line = " ".join(str(what)[: 4 * _SHORT].split())[:_SHORT]
    return MemoryGap(event.kind, event.seq, None if call is None else str(call), line, cut)
