"""What an agent's stream showed us and its own store lacks: it would not remember that."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec

from holdfast.history.align import Known, Said
from holdfast.model.event import Event, NewEvent

MOST = 20  # that are named
_SHORT = 200  # characters of what is named
_UNKNOWN = "interrupted"


class Gap(msgspec.Struct, frozen=True):
    """One thing that is missing there."""

    kind: str  # user, tool_progress, tool_summary
    seq: int  # its record in our log
    call: str | None
    what: str
    cut: bool = False  # of the turn that was cut short, which a copy up to the last whole turn leaves out


def gap(
    shown: Iterable[Event], stored: Iterable[NewEvent], said: Said | None = None, cut: str | None = None
) -> list[Gap]:
    """The prompts, calls and results of our log that the store has not, the first ones.

    A call whose end the agent never told is a call only: there is no result to remember. `cut` is the task
    whose turn a copy leaves out.
    """
    known = Known(said)
    for event in stored:
        if not _is_made_up(event):
            known.add(event)
    told = (event for event in shown if not _is_made_up(event))
    lacks = (event for event in told if any(known.missing([_new(event)])))
    return [_named(event, cut is not None and event.task == cut) for event in islice(lacks, MOST)]


def leaves_out(
    task: str, shown: Iterable[Event], stored: Iterable[NewEvent], turns: int, said: Said | None = None
) -> bool:
    """Whether a copy of so many turns of the store is without the prompt of that task."""
    known, number = Known(said), 0
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


def _named(event: Event, cut: bool) -> Gap:
    body: dict[str, Any] = event.body
    call = body.get("call")
    what = body.get("text") or f"{body.get('name')} {body.get('input') or body.get('output') or ''}"
    line = " ".join(str(what)[: 4 * _SHORT].split())[:_SHORT]
    return Gap(event.kind, event.seq, None if call is None else str(call), line, cut)
