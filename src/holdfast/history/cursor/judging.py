"""Whether a stored conversation is sound: its events and problems in, a judgement out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.history.reader import Problem
from holdfast.model.event import NewEvent

MOST = 20  # problems of one code that are told
_CUTS = frozenset({"cancelled", "expired"})  # marks after which a turn's last words are no answer

_OPEN = frozenset({"run_still_open", "turn_unfinished"})  # problems of a run whose end is not told


class Judgement(msgspec.Struct):
    """What the events show."""

    turns: int = 0
    last_complete: int | None = None
    dangling: list[dict[str, Any]] = []
    problems: list[Problem] = []


def judge(items: Iterable[NewEvent | Problem], has_runs: bool) -> Judgement:
    """Turns, calls without a result, and all that is wrong.

    `has_runs`: the store says of each run how it ended, so that its last words need not tell.
    """
    found = Judgement()
    counted: Counter[str] = Counter()
    turn: _Turn | None = None
    calls: dict[str, Any] = {}  # the inputs of calls that are open
    for item in items:
        if isinstance(item, Problem):
            counted[item.code] += 1
            if counted[item.code] <= MOST:
                found.problems.append(item)
            if item.code in _OPEN and item.evidence.get("began") and turn is not None:
                turn.cut = True
            continue
        body = item.body
        if item.kind == "user" or body.get("code") == "no_prompt":
            _count(found, turn)
            turn = _Turn()
            found.turns += 1
        elif item.kind in ("notice", "error"):
            if turn is not None and body["code"] in _CUTS:
                turn.cut = True
        else:
            turn = turn or _Turn()
            turn.hear(item)
            if item.kind == "tool_progress":
                calls[str(body["call"])] = body["input"]
            elif item.kind == "tool_summary":
                given = calls.pop(str(body["call"]), {})
                if body["outcome"] == "interrupted" and item.origin is None:
                    turn.dangling = True
                    found.dangling.append({"call": body["call"], "name": body["name"], "input": given})
    _count(found, turn)
    found.problems += _of_the_end(found, turn, has_runs)
    return found


class _Turn:
    """One turn as far as it was heard."""

    def __init__(self) -> None:
        self.last = ""  # the kind of its last event
        self.cut = False
        self.dangling = False

    def hear(self, event: NewEvent) -> None:
        if not (event.kind == "tool_summary" and event.origin is None):
            self.last = event.kind

    @property
    def complete(self) -> bool:
        """Whether it ended with an answer and no call open."""
        return self.last == "assistant" and not self.cut and not self.dangling


def _count(found: Judgement, turn: _Turn | None) -> None:
    if turn is not None and turn.complete and found.turns:
        found.last_complete = found.turns


def _of_the_end(found: Judgement, turn: _Turn | None, has_runs: bool) -> list[Problem]:
    problems = []
    if found.dangling:
        calls = [{"call": call["call"], "name": call["name"]} for call in found.dangling[:MOST]]
        count = len(found.dangling)
        text = "a call has no result" if count == 1 else f"{count} calls have no result"
        problems.append(Problem("dangling_call", text, {"calls": calls}))
    if turn is None:
        if not found.problems:
            problems.append(Problem("no_messages", "nothing was said in it", {}))
    elif not has_runs and not turn.complete and not turn.dangling:
        if any(problem.code == "no_reply" for problem in found.problems):
            return problems
        code = "turn_unfinished" if turn.last else "no_reply"
        text = "the last turn has no answer" if turn.last else "the last prompt has no reply"
        problems.append(Problem(code, text, {}))
    return problems
