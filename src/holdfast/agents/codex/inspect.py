"""Whether a rollout is sound: facts in, problems out."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

from holdfast.transcripts.reader import TranscriptProblem

SHOWN = 20  # pieces of evidence that are kept of one kind of problem
DANGLING = 1000  # calls without a result that are listed
_RECENT = 10_000


class LastTurn(msgspec.Struct, frozen=True):
    """How the last turn stands."""

    ended: str | None  # complete, failed, aborted; None if nothing says so
    begun: bool  # whether anything came after the prompt
    dangling: bool
    reason: str = ""


class CodexFacts(msgspec.Struct):
    """The fold of a rollout."""

    records: int = 0
    header: bool = False  # the first line is the session's own
    header_id: str | None = None
    thread_id: str | None = None  # as other records name it
    cwd: str | None = None
    title: str | None = None
    said: bool = False  # a person or the model said something
    complete: bytearray = msgspec.field(default_factory=bytearray)  # of each turn
    dangling: list[tuple[int, dict[str, Any]]] = []  # with the number of its turn
    last: LastTurn | None = None
    odd: dict[str, list[dict[str, Any]]] = {}  # problem: its evidence, as far as it is kept
    counts: dict[str, int] = {}  # problem: how often

    @property
    def turns(self) -> int:
        """How many prompts began a turn."""
        return len(self.complete)

    @property
    def last_complete(self) -> int | None:
        """The number of the last turn that ended with an answer and no open call."""
        return self.complete.rfind(1) + 1 or None

    def note(self, code: str, **evidence: Any) -> None:
        """Keep that something is wrong."""
        self.counts[code] = self.counts.get(code, 0) + 1
        shown = self.odd.setdefault(code, [])
        if len(shown) < SHOWN:
            shown.append(evidence)

    def take_back(self, turns: int) -> None:
        """The last turns do not count any more."""
        del self.complete[max(0, self.turns - turns) :]
        self.dangling = [entry for entry in self.dangling if entry[0] <= self.turns]


class RecentIds:
    """The ids met lately; more than any file holds between two records that belong together."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    def add(self, id: str) -> None:
        """Keep an id, and forget the oldest if there are too many."""
        self._ids[id] = None
        if len(self._ids) > _RECENT:
            self._ids.popitem(last=False)


# --- Whether a rollout is sound: facts in, problems out.

# With any of these a resume would lose or repeat something, or is refused.
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
    "bad_line": "lines that cannot be read, which Codex passes over in silence",
    "nul_tail": "the file ends in NULs, as after a power cut",
    "glued_lines": "lines that hold more than one record",
    "ordinal_gap": "the numbers of its records have a gap: some are missing",
    "duplicate_ordinal": "numbers of records are used twice",
    "duplicate_record": "records that stand in the file twice",
    "duplicate_result": "calls with more than one result",
    "orphan_result": "results of calls that are not there, which Codex drops",
}


def judge(facts: CodexFacts, native_id: str) -> list[TranscriptProblem]:
    """What is wrong with a rollout that was asked for as that thread."""
    if facts.records == 0:
        return [TranscriptProblem("empty", "the file is empty, and Codex refuses it")]
    problems = []
    if not facts.header:
        text = "its first line is not the session's own, and Codex refuses the file"
        problems.append(TranscriptProblem("bad_header", text))
    elif facts.header_id is not None and facts.header_id != native_id:
        text = f"the file says that it is the thread {facts.header_id}, not {native_id}"
        problems.append(TranscriptProblem("session_id_mismatch", text, {"in_file": facts.header_id}))
    for code, shown in facts.odd.items():
        count = facts.counts[code]
        problems.append(TranscriptProblem(code, _TEXTS.get(code, code), {"count": count, "first": shown}))
    if facts.dangling:
        named = ", ".join(str(call["name"]) for _, call in facts.dangling[:5])
        text = f"calls without a result ({named}), of which Codex tells the model that they were aborted"
        problems.append(
            TranscriptProblem("dangling_call", text, {"calls": [c["call"] for _, c in facts.dangling]})
        )
    return problems + _last(facts)


def is_sound(problems: list[TranscriptProblem]) -> bool:
    """Whether none of them would make a resume lose or repeat something."""
    return not any(problem.code in _UNSOUND for problem in problems)


def _last(facts: CodexFacts) -> list[TranscriptProblem]:
    turn: dict[str, Any] = {"turn": facts.turns}
    if not facts.said:
        return [TranscriptProblem("no_messages", "nobody has said anything in it")]
    last = facts.last
    if last is None:
        return []
    if last.ended == "aborted":
        text = f"the last turn was stopped ({last.reason or 'no reason is told'})"
        return [TranscriptProblem("interrupted_on_purpose", text, turn)]
    if last.ended == "failed":
        return [TranscriptProblem("ended_in_api_error", f"the last turn failed: {last.reason}", turn)]
    if last.ended is not None or last.dangling:
        return []
    if not last.begun:
        return [TranscriptProblem("no_reply", "the last prompt has no answer", turn)]
    return [TranscriptProblem("turn_unfinished", "the last turn has no end", turn)]
