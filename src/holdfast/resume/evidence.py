"""What shows that a row of the table applies: facts in, evidence or None out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.history.reader import Problem
from holdfast.model.task import ENDED
from holdfast.resume import record
from holdfast.resume.facts import Facts
from holdfast.resume.survivors import Process

Evidence = dict[str, Any]
Shows = Callable[[Facts], list[Evidence]]  # none: it does not apply

PROBLEM = "problem"  # in a piece of evidence: the code of what is wrong, where that says more than the row

# What a store's last turn may look like without anything being lost: it ended, only not well.
HARMLESS = frozenset({"ended_in_api_error", "interrupted_on_purpose", "unknown_outcome"})

# What is wrong with a store, by the row that says so: codes of `inspect`.
STORE: dict[str, tuple[str, ...]] = {
    "store_missing": (
        "no_transcript",
        "missing_store",
        "missing",
        "empty",
        "no_messages",
        "never_started",
        "deleted_tombstone",
        "history_wiped",
    ),
    "store_shrunk": ("shrunk", "rewritten"),
    "store_torn": (
        "torn_tail",
        "bad_line",
        "nul_tail",
        "glued_lines",
        "bad_header",
        "store_damaged",
        "store_unreadable",
        "compressed",
        "missing_blob",
    ),
    "store_forked": ("forked_history", "duplicate_result", "duplicate_record"),
    "store_broken": (
        "missing_parent",
        "parent_cycle",
        "ordinal_gap",
        "orphan_result",
        "context_forgets_step",
        "session_id_mismatch",
    ),
    "store_ambiguous": ("ambiguous_store", "multiple_files"),
    "store_unfinished": ("turn_unfinished", "no_reply", "run_still_open"),
    "store_destroyed": ("resume_destroys_history",),
    "dangling_call": ("dangling_call",),
}


# What a store lacks of what we were shown, by the kind of our record.
LACKS = {
    "user": "prompt_not_in_history",
    "tool_progress": "effect_not_in_history",
    "tool_summary": "result_not_in_history",
}


def when(applies: bool, **shown: Any) -> list[Evidence]:
    """One piece of evidence, if it applies."""
    return [shown] if applies else []


def tasks(facts: Facts) -> list[Evidence]:
    """Tasks that have not ended."""
    last = facts.last
    open_ = [] if last is None or last.status in ENDED else [last.task]
    found = list(dict.fromkeys([*facts.waiting, *open_]))
    return when(bool(found), tasks=found)


def processes(found: tuple[Process, ...]) -> list[Evidence]:
    """Processes that still run."""
    return when(bool(found), processes=[msgspec.to_builtins(process) for process in sorted(found)])


def last(status: str) -> Shows:
    """The last task ended so; trust given by hand covers all but an interruption."""

    def shows(facts: Facts) -> list[Evidence]:
        last = facts.last
        if last is None or last.status != status or (facts.trusted and status != "interrupted"):
            return []
        if status == "failed" and last.answered:
            return []
        return [{"task": last.task, "why": last.reason or "no reason was given"}]

    return shows


def problems(*codes: str) -> Shows:
    """The store has one of these problems, or several."""

    def shows(facts: Facts) -> list[Evidence]:
        if facts.store is None or facts.store.sound:
            return []
        found = [problem for problem in facts.store.problems if problem.code in codes]
        return [_shown(facts, problem) for problem in found]

    return shows


def unread(facts: Facts) -> list[Evidence]:
    """There is a conversation here, and no store that could tell of it."""
    looked = facts.elsewhere is None and not tasks(facts)
    return when(facts.token is not None and facts.store is None and looked, agent=facts.agent)


def unsound(facts: Facts) -> list[Evidence]:
    """It has problems that no other row knows."""
    if facts.store is None or facts.store.sound:
        return []
    known = {code for codes in STORE.values() for code in codes} | HARMLESS
    others = [_shown(facts, problem) for problem in facts.store.problems if problem.code not in known]
    silent = when(not facts.store.problems, what="its reader does not say why", path=facts.store.path)
    return others or silent


def too_soon(facts: Facts) -> list[Evidence]:
    """The store says that a little later it can be loaded."""
    for problem in facts.store.problems if facts.store is not None else []:
        if problem.evidence.get("how") == "same_minute":
            return [{"until": problem.evidence["until"], "what": problem.text}]
    return []


def destroys(facts: Facts) -> list[Evidence]:
    """The store says that loading it would destroy it."""
    found = problems("resume_destroys_history")(facts)
    return [shown for shown in found if shown.get("how") != "same_minute"]


def dangling(facts: Facts) -> list[Evidence]:
    """Calls without a result in the store."""
    calls = facts.store.dangling if facts.store is not None else []
    if calls:
        return [{"calls": calls, "names": [str(call.get("name")) for call in calls]}]
    return [{**shown, "names": [shown["what"]]} for shown in problems("dangling_call")(facts)[:1]]


def gap(cut: bool) -> Shows:
    """What the agent would not remember, of the turn that was cut short or of the others.

    Of a call that is not there, not its result as well.
    """

    def shows(facts: Facts) -> list[Evidence]:
        calls = {gap.call for gap in facts.gaps if gap.kind == "tool_progress"}
        found: dict[str, list[Any]] = {}
        for gap in facts.gaps:
            if gap.cut == cut and (gap.kind != "tool_summary" or gap.call not in calls):
                found.setdefault(LACKS[gap.kind], []).append(msgspec.to_builtins(gap))
        return [{PROBLEM: code, "missing": missing} for code, missing in found.items()]

    return shows


def gone(own: bool) -> Shows:
    """The session's folder is gone."""
    return lambda facts: when(not facts.folder.there and facts.folder.worktree == own, path=facts.folder.path)


def other_branch(facts: Facts) -> list[Evidence]:
    """The folder is on another branch."""
    folder = facts.folder
    then, now = folder.was_on, folder.is_on
    return when(None not in (then, now) and then != now, path=folder.path, was=then, now=now)


def other_folder(facts: Facts) -> list[Evidence]:
    """The store or the caller names another folder."""
    here = facts.folder.path
    places = (facts.store.cwd if facts.store is not None else None, facts.wanted)
    for there in places:
        if here is not None and there is not None and not _is_same(here, there):
            return [{"path": here, "other": there}]
    return []


def failed_twice(facts: Facts) -> list[Evidence]:
    """Two failures are the same one."""
    for place, failure in enumerate(facts.failures):
        if any(record.same(failure, other) for other in facts.failures[place + 1 :]):
            return [{"failures": list(facts.failures), "why": failure}]
    return []


def agreement(facts: Facts) -> list[Evidence]:
    """What the witnesses agree on."""
    store = facts.store
    shown = {
        "task": None if facts.last is None else facts.last.task,
        "turns": None if store is None else store.turns,
        "path": None if store is None else store.path,
    }
    return [shown]


def _shown(facts: Facts, problem: Problem) -> Evidence:
    path = facts.store.path if facts.store is not None else None
    return {PROBLEM: problem.code, "what": problem.text, "path": path, **problem.evidence}


def _is_same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")
