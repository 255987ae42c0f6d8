"""Is a rollout sound? Facts in, problems out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.transcripts.reader import TranscriptProblem

SHOWN = 20  # how many examples of a problem are kept
DANGLING = 1000  # how many calls without a result are listed
_RECENT = 10_000


class LastTurn(msgspec.Struct, frozen=True):
    """The state of the last turn."""

    ended: str | None  # complete, failed, aborted; None if no record says so
    begun: bool  # anything came after the prompt
    dangling: bool
    reason: str = ""


class CodexFacts(msgspec.Struct):
    """Facts about a rollout."""

    records: int = 0
    header: bool = False  # the first line is the session header
    header_id: str | None = None
    thread_id: str | None = None  # as other records name it
    cwd: str | None = None
    title: str | None = None
    has_messages: bool = False  # a person or the model said something
    complete: bytearray = msgspec.field(default_factory=bytearray)  # one byte per turn
    dangling: list[tuple[int, dict[str, Any]]] = []  # with the number of its turn
    last: LastTurn | None = None
    odd: dict[str, list[dict[str, Any]]] = {}  # problem code -> examples
    counts: dict[str, int] = {}  # problem code -> count

    @property
    def turns(self) -> int:
        """How many prompts began a turn."""
        return len(self.complete)

    @property
    def last_complete(self) -> int | None:
        """The number of the last turn that ended with an answer and no open call."""
        return self.complete.rfind(1) + 1 or None

    def note(self, code: str, **evidence: Any) -> None:
        """Record a problem."""
        self.counts[code] = self.counts.get(code, 0) + 1
        examples = self.odd.setdefault(code, [])
        if len(examples) < SHOWN:
            examples.append(evidence)

    def take_back(self, turns: int) -> None:
        """The last turns no longer count."""
        del self.complete[max(0, self.turns - turns) :]
        self.dangling = [entry for entry in self.dangling if entry[0] <= self.turns]


class RecentIds:
    """Recently seen ids, more than any file holds between two related records."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    def add(self, id: str) -> None:
        """Remember an id, and forget the oldest if there are too many."""
        self._ids[id] = None
        if len(self._ids) > _RECENT:
            self._ids.popitem(last=False)


# --- The rules

# With any of these a resume loses or repeats something, or is refused.
_UNSOUND = frozenset(
    {
        "empty",
        "bad_header",
        "no_messages",
        "no_transcript",
        "compressed",
        "store_damaged",
        "multiple_files",
        "session_id_mismatch",
        "torn_tail",
        "bad_line",
        "nul_tail",
        "glued_lines",
        "ordinal_gap",
        "duplicate_record",
        "duplicate_result",
        "orphan_result",
        "dangling_call",
        "turn_unfinished",
        "no_reply",
    }
)
_TEXTS = {
    "torn_tail": "the last line is cut off",
    "bad_line": "some lines cannot be read; Codex skips them silently",
    "nul_tail": "the file ends in NULs, as after a power cut",
    "glued_lines": "some lines hold more than one record",
    "ordinal_gap": "record numbers have a gap: records are missing",
    "duplicate_ordinal": "record numbers are used twice",
    "duplicate_record": "records appear twice in the file",
    "duplicate_result": "calls have more than one result",
    "orphan_result": "results have no call; Codex drops them",
}


def find_problems(facts: CodexFacts, native_id: str) -> list[TranscriptProblem]:
    """The problems of a rollout that was requested as this thread."""
    if facts.records == 0:
        return [TranscriptProblem("empty", "the file is empty, and Codex refuses it")]
    problems = []
    if not facts.header:
        text = "the first line is not the session header, and Codex refuses the file"
        problems.append(TranscriptProblem("bad_header", text))
    elif facts.header_id is not None and facts.header_id != native_id:
        text = f"the file belongs to thread {facts.header_id}, not {native_id}"
        problems.append(TranscriptProblem("session_id_mismatch", text, {"in_file": facts.header_id}))
    for code, examples in facts.odd.items():
        count = facts.counts[code]
        problems.append(TranscriptProblem(code, _TEXTS.get(code, code), {"count": count, "first": examples}))
    if facts.dangling:
        named = ", ".join(str(call["name"]) for _, call in facts.dangling[:5])
        text = f"calls without a result ({named}); Codex tells the model that they were aborted"
        problems.append(
            TranscriptProblem("dangling_call", text, {"calls": [c["call"] for _, c in facts.dangling]})
        )
    return problems + _last(facts)


def is_sound(problems: Sequence[TranscriptProblem]) -> bool:
    """Whether a resume loses nothing and repeats nothing in spite of these problems."""
    return not any(problem.code in _UNSOUND for problem in problems)


def _last(facts: CodexFacts) -> list[TranscriptProblem]:
    turn: dict[str, Any] = {"turn": facts.turns}
    if not facts.has_messages:
        return [TranscriptProblem("no_messages", "it has no messages")]
    last = facts.last
    if last is None:
        return []
    if last.ended == "aborted":
        text = f"the last turn was stopped ({last.reason or 'no reason given'})"
        return [TranscriptProblem("interrupted_on_purpose", text, turn)]
    if last.ended == "failed":
        return [TranscriptProblem("ended_in_api_error", f"the last turn failed: {last.reason}", turn)]
    if last.ended is not None or last.dangling:
        return []
    if not last.begun:
        return [TranscriptProblem("no_reply", "the last prompt has no answer", turn)]
    return [TranscriptProblem("turn_unfinished", "the last turn has no recorded end", turn)]
