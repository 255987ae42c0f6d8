"""How far a conversation has come: its turns while they are read, and what is wrong with the last one."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.event import NewEvent
from holdfast.transcripts.jsonl import UNKNOWN_OUTCOME
from holdfast.transcripts.reader import TranscriptProblem

DANGLING = 1000  # calls without a result that are listed

COMPLETE, FAILED, ABORTED = "complete", "failed", "aborted"


class TranscriptTurn(msgspec.Struct):
    """From one prompt to the next."""

    number: int = 0  # from 1; 0 before the first prompt
    did: bool = False  # the model said or did anything
    said: bool = False  # the model said something
    ended: str | None = None  # one of the words above; None while nothing says so
    reason: str = ""
    open: dict[str, dict[str, Any]] = {}  # calls without a result, by their id


class TurnTracker:
    """All turns of a conversation; only the one that is being read is kept."""

    def __init__(self) -> None:
        self.now = TranscriptTurn()
        self.count = 0
        self.last_complete: int | None = None
        self.dangling: list[dict[str, Any]] = []

    def prompt(self) -> list[NewEvent]:
        """A prompt begins a turn; what the one before left open ends here."""
        events = self.close()
        self.count += 1
        self.now = TranscriptTurn(self.count)
        return events

    def call(self, id: str, name: str, input: Any) -> None:
        """A call begins."""
        self.now.did = True
        self.now.open[id] = {"call": id, "name": name, "input": input}

    def result(self, id: str) -> dict[str, Any] | None:
        """A call of this turn ends; None if none such is open."""
        self.now.did = True
        return self.now.open.pop(id, None)

    def late(self, id: str) -> dict[str, Any] | None:
        """A call of an earlier turn ends after all; None if none such was left open."""
        for call in self.dangling:
            if call["call"] == id:
                self.dangling.remove(call)
                return call
        return None

    def spoke(self) -> None:
        """The model said something."""
        self.now.did = self.now.said = True

    def close(self) -> list[NewEvent]:
        """The end of the turn that is being read: an end for each call that has none."""
        turn = self.now
        if turn.number and turn.ended == COMPLETE and turn.said and not turn.open:
            self.last_complete = turn.number
        self.dangling.extend(list(turn.open.values())[: DANGLING - len(self.dangling)])
        return [_unknown(call) for call in turn.open.values()]

    def problems(self) -> list[TranscriptProblem]:
        """What is wrong once all turns are closed."""
        found = []
        if self.dangling:
            named = ", ".join(str(call["name"]) for call in self.dangling[:5])
            calls = [call["call"] for call in self.dangling]
            found.append(
                TranscriptProblem("dangling_call", f"calls without a result ({named})", {"calls": calls})
            )
        return found + self._last()

    def _last(self) -> list[TranscriptProblem]:
        turn, shown = self.now, {"turn": self.now.number}
        if not self.count:
            return [] if turn.did else [TranscriptProblem("no_messages", "nobody has said anything in it")]
        if turn.ended == ABORTED:
            return [
                TranscriptProblem("interrupted_on_purpose", "the last turn was stopped by the user", shown)
            ]
        if turn.ended == FAILED:
            return [TranscriptProblem("ended_in_api_error", f"the last turn failed: {turn.reason}", shown)]
        if turn.open:
            return []
        if not turn.did:
            return [TranscriptProblem("no_reply", "the last prompt has no answer", shown)]
        if turn.ended != COMPLETE:
            return [TranscriptProblem("turn_unfinished", "the last turn has no end", shown)]
        return []


def _unknown(call: dict[str, Any]) -> NewEvent:
    body = {"call": call["call"], "name": call["name"], "outcome": "interrupted", "output": UNKNOWN_OUTCOME}
    return NewEvent("tool_summary", body)
