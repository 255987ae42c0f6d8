"""How far did a conversation get, and what is wrong with its last turn?"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.event import NewEvent
from holdfast.transcripts.jsonl import UNKNOWN_OUTCOME
from holdfast.transcripts.reader import TranscriptProblem

DANGLING = 1000  # how many calls without a result are listed

COMPLETE, FAILED, ABORTED = "complete", "failed", "aborted"


class TranscriptTurn(msgspec.Struct):
    """The events from one prompt to the next."""

    number: int = 0  # from 1; 0 before the first prompt
    acted: bool = False  # the model said or did anything
    has_text: bool = False  # the model said something
    ended: str | None = None  # one of the words above; None while the turn has no recorded end
    reason: str = ""
    open: dict[str, dict[str, Any]] = {}  # calls without a result, by id


class TurnTracker:
    """Counts the turns of a conversation; only the current turn is kept in memory."""

    def __init__(self) -> None:
        self.now = TranscriptTurn()
        self.count = 0
        self.last_complete: int | None = None
        self.dangling: list[dict[str, Any]] = []

    def prompt(self) -> list[NewEvent]:
        """A prompt begins a turn. Open calls of the turn before end here."""
        events = self.close()
        self.count += 1
        self.now = TranscriptTurn(self.count)
        return events

    def call(self, id: str, name: str, input: Any) -> None:
        """A call begins."""
        self.now.acted = True
        self.now.open[id] = {"call": id, "name": name, "input": input}

    def result(self, id: str) -> dict[str, Any] | None:
        """A call of this turn ends; None if it is not open."""
        self.now.acted = True
        return self.now.open.pop(id, None)

    def late_result(self, id: str) -> dict[str, Any] | None:
        """A call of an earlier turn ends after all; None if it was not left open."""
        for call in self.dangling:
            if call["call"] == id:
                self.dangling.remove(call)
                return call
        return None

    def add_text(self) -> None:
        """The model says something."""
        self.now.acted = self.now.has_text = True

    def close(self) -> list[NewEvent]:
        """End the current turn: one summary for each call without a result."""
        turn = self.now
        if turn.number and turn.ended == COMPLETE and turn.has_text and not turn.open:
            self.last_complete = turn.number
        self.dangling.extend(list(turn.open.values())[: DANGLING - len(self.dangling)])
        return [_unknown(call) for call in turn.open.values()]

    def problems(self) -> list[TranscriptProblem]:
        """What is wrong, once all turns are closed."""
        problems = []
        if self.dangling:
            named = ", ".join(str(call["name"]) for call in self.dangling[:5])
            calls = [call["call"] for call in self.dangling]
            problems.append(
                TranscriptProblem("dangling_call", f"calls without a result ({named})", {"calls": calls})
            )
        return problems + self._last()

    def _last(self) -> list[TranscriptProblem]:
        turn, evidence = self.now, {"turn": self.now.number}
        if not self.count:
            return [] if turn.acted else [TranscriptProblem("no_messages", "it has no messages")]
        if turn.ended == ABORTED:
            return [TranscriptProblem("interrupted_on_purpose", "the user stopped the last turn", evidence)]
        if turn.ended == FAILED:
            return [TranscriptProblem("ended_in_api_error", f"the last turn failed: {turn.reason}", evidence)]
        if turn.open:
            return []
        if not turn.acted:
            return [TranscriptProblem("no_reply", "the last prompt has no answer", evidence)]
        if turn.ended != COMPLETE:
            return [TranscriptProblem("turn_unfinished", "the last turn has no recorded end", evidence)]
        return []


def _unknown(call: dict[str, Any]) -> NewEvent:
    body = {"call": call["call"], "name": call["name"], "outcome": "interrupted", "output": UNKNOWN_OUTCOME}
    return NewEvent("tool_summary", body)
