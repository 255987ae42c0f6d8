"""Whether a rollout is sound: facts in, problems out."""

from __future__ import annotations

from typing import Any

from holdfast.history.codex.facts import Facts
from holdfast.history.reader import Problem

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


def judge(facts: Facts, native_id: str) -> list[Problem]:
    """What is wrong with a rollout that was asked for as that thread."""
    if facts.records == 0:
        return [Problem("empty", "the file is empty, and Codex refuses it")]
    problems = []
    if not facts.header:
        text = "its first line is not the session's own, and Codex refuses the file"
        problems.append(Problem("bad_header", text))
    elif facts.header_id is not None and facts.header_id != native_id:
        text = f"the file says that it is the thread {facts.header_id}, not {native_id}"
        problems.append(Problem("session_id_mismatch", text, {"in_file": facts.header_id}))
    for code, shown in facts.odd.items():
        count = facts.counts[code]
        problems.append(Problem(code, _TEXTS.get(code, code), {"count": count, "first": shown}))
    if facts.dangling:
        named = ", ".join(str(call["name"]) for _, call in facts.dangling[:5])
        text = f"calls without a result ({named}), of which Codex tells the model that they were aborted"
        problems.append(Problem("dangling_call", text, {"calls": [c["call"] for _, c in facts.dangling]}))
    return problems + _last(facts)


def is_sound(problems: list[Problem]) -> bool:
    """Whether none of them would make a resume lose or repeat something."""
    return not any(problem.code in _UNSOUND for problem in problems)


def _last(facts: Facts) -> list[Problem]:
    turn: dict[str, Any] = {"turn": facts.turns}
    if not facts.said:
        return [Problem("no_messages", "nobody has said anything in it")]
    last = facts.last
    if last is None:
        return []
    if last.ended == "aborted":
        text = f"the last turn was stopped ({last.reason or 'no reason is told'})"
        return [Problem("interrupted_on_purpose", text, turn)]
    if last.ended == "failed":
        return [Problem("ended_in_api_error", f"the last turn failed: {last.reason}", turn)]
    if last.ended is not None or last.dangling:
        return []
    if not last.begun:
        return [Problem("no_reply", "the last prompt has no answer", turn)]
    return [Problem("turn_unfinished", "the last turn has no end", turn)]
