"""The history of one session: its transcript, and what its subagents did between a call and its result."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.history.claude.subagents import Subagents, call_of, is_subagent
from holdfast.history.claude.tell import Teller
from holdfast.history.claude.transcript import Transcript
from holdfast.model.event import NewEvent

_DEEPEST = 20  # subagents that start subagents


def history(path: str, native_id: str) -> Iterator[NewEvent]:
    """All events of the session, in their logical order."""
    subagents = Subagents(path, native_id)
    yield from _told(path, native_id, subagents, call_of(path) if is_subagent(path) else None, 0)
    for call, file in subagents.rest():
        yield from _told(file, native_id, subagents, call, 1)


def _told(
    path: str, native_id: str, subagents: Subagents, parent: str | None, depth: int
) -> Iterator[NewEvent]:
    try:
        transcript = Transcript(path)
    except OSError:
        return
    with transcript:
        teller = Teller(native_id, transcript.answered, parent)
        for piece in transcript.in_order():
            for event in teller.tell(piece):
                if event.kind == "tool_summary" and (subagents.calls or teller.prompts):
                    yield from _before(event, native_id, subagents, teller, depth)
                yield event
        for event in teller.close():
            yield from _before(event, native_id, subagents, teller, depth)
            yield event


def _before(
    event: NewEvent, native_id: str, subagents: Subagents, teller: Teller, depth: int
) -> Iterator[NewEvent]:
    """What the subagent did whose call ends with this event."""
    call = event.body["call"]
    if depth >= _DEEPEST or (call not in subagents.calls and call not in teller.prompts):
        return
    for file in subagents.take(call, teller.helpers.pop(call, None), teller.prompts.pop(call, None)):
        yield from _told(file, native_id, subagents, call, depth + 1)
