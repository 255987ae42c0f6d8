"""The evidence of each rule of the verdict: what in the facts shows that it applies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.model.task import ENDED
from holdfast.resume import log_evidence
from holdfast.resume.environment import LiveProcess
from holdfast.resume.facts import ResumeFacts
from holdfast.transcripts.reader import HARMLESS, TranscriptProblem

Evidence = dict[str, Any]
EvidenceOf = Callable[[ResumeFacts], list[Evidence]]  # none: it does not apply

PROBLEM = "problem"  # in a piece of evidence: the code of what is wrong, where that says more than the row

API_ERROR, STOPPED = "ended_in_api_error", "interrupted_on_purpose"  # two of HARMLESS

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
        "bad_native_id",
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


def tasks(facts: ResumeFacts) -> list[Evidence]:
    """Tasks that have not ended."""
    last = facts.last
    open_ = [] if last is None or last.status in ENDED else [last.task]
    found = list(dict.fromkeys([*facts.waiting, *open_]))
    return when(bool(found), tasks=found)


def processes(found: tuple[LiveProcess, ...]) -> list[Evidence]:
    """Processes that still run."""
    return when(bool(found), processes=[msgspec.to_builtins(process) for process in sorted(found)])


def leftovers(facts: ResumeFacts) -> list[Evidence]:
    """Processes that the last run started and that outlived it."""
    task = {} if facts.last is None else {"task": facts.last.task}
    return [{**shown, **task} for shown in processes(facts.tools)]


def last(status: str) -> EvidenceOf:
    """The last task ended so; trust given by hand covers all but an interruption."""

    def shows(facts: ResumeFacts) -> list[Evidence]:
        last = facts.last
        if last is None or last.status != status or (facts.trusted and status != "interrupted"):
            return []
        if status == "failed" and last.answered:
            return []
        return [{"task": last.task, "why": last.reason or "no reason was given"}]

    return shows


def stopped(facts: ResumeFacts) -> list[Evidence]:
    """A person stopped the last turn in the store, and no task of ours accounts for that."""
    if facts.store is None or facts.trusted or (facts.last is not None and facts.last.status == "cancelled"):
        return []
    return [_shown(facts, problem) for problem in facts.store.problems if problem.code == STOPPED]


def api_error(facts: ResumeFacts) -> list[Evidence]:
    """The last turn in the store ended in an error of the agent's service; our last task did not fail."""
    if facts.store is None or (facts.last is not None and facts.last.status != "succeeded"):
        return []
    return [_shown(facts, problem) for problem in facts.store.problems if problem.code == API_ERROR]


def succeeded(facts: ResumeFacts) -> list[Evidence]:
    """Our last task succeeded, and nothing went wrong after it."""
    last = facts.last
    is_last = last is not None and last.status == "succeeded" and facts.not_started is None
    return agreement(facts) if is_last and not api_error(facts) else []


def answered(facts: ResumeFacts) -> list[Evidence]:
    """The last task failed, but the agent ended its turn with an answer."""
    last = facts.last
    if last is None or last.status != "failed" or facts.trusted:
        return []
    return [{**agreement(facts)[0], "why": last.reason or "no reason was given"}]


def vouched(facts: ResumeFacts) -> list[Evidence]:
    """The last task was cancelled or failed, and somebody has said since that the session is sound."""
    last = facts.last
    if last is None or last.status == "succeeded" or not facts.trusted:
        return []
    why = last.reason or "no reason was given"
    return [
        {
            "task": last.task,
            "status": last.status,
            "why": why,
            "by": facts.trusted_by or "somebody",
            "reason": facts.trusted_why or "no reason was given",
        }
    ]


def adopted(facts: ResumeFacts) -> list[Evidence]:
    """No task of ours has reached the agent in this conversation."""
    return agreement(facts) if facts.last is None and not api_error(facts) else []


def not_started(facts: ResumeFacts) -> list[Evidence]:
    """The last task failed before it reached the agent."""
    task = facts.not_started
    if task is None:
        return []
    before = None if facts.last is None else facts.last.task
    why = task.reason or "no reason was given"
    return [{"task": task.task, "status": task.status, "why": why, "before": before}]


def archived(facts: ResumeFacts) -> list[Evidence]:
    """The session is archived."""
    return [] if facts.archived is None else [msgspec.to_builtins(facts.archived)]


def problems(*codes: str) -> EvidenceOf:
    """The store has one of these problems, or several."""

    def shows(facts: ResumeFacts) -> list[Evidence]:
        if facts.store is None or facts.store.sound:
            return []
        found = [problem for problem in facts.store.problems if problem.code in codes]
        return [_shown(facts, problem) for problem in found]

    return shows


def unread(facts: ResumeFacts) -> list[Evidence]:
    """There is a conversation here, and no store that could tell of it."""
    looked = facts.elsewhere is None and not tasks(facts)
    return when(facts.token is not None and facts.store is None and looked, agent=facts.agent)


def unsound(facts: ResumeFacts) -> list[Evidence]:
    """It has problems that no other row knows."""
    if facts.store is None or facts.store.sound:
        return []
    known = {code for codes in STORE.values() for code in codes} | HARMLESS
    others = [_shown(facts, problem) for problem in facts.store.problems if problem.code not in known]
    silent = when(not facts.store.problems, what="its reader does not say why", path=facts.store.path)
    return others or silent


def too_soon(facts: ResumeFacts) -> list[Evidence]:
    """The store says that a little later it can be loaded."""
    for problem in facts.store.problems if facts.store is not None else []:
        if problem.evidence.get("how") == "same_minute":
            return [{"until": problem.evidence["until"], "what": problem.text}]
    return []


def destroys(facts: ResumeFacts) -> list[Evidence]:
    """The store says that loading it would destroy it."""
    found = problems("resume_destroys_history")(facts)
    return [shown for shown in found if shown.get("how") != "same_minute"]


def dangling(facts: ResumeFacts) -> list[Evidence]:
    """Calls without a result in the store."""
    calls = facts.store.dangling if facts.store is not None else []
    if calls:
        return [{"calls": calls, "names": [str(call.get("name")) for call in calls]}]
    return [{**shown, "names": [shown["what"]]} for shown in problems("dangling_call")(facts)[:1]]


def gap(cut: bool) -> EvidenceOf:
    """What the agent would not remember, of the turn that was cut short or of the others.

    Of a call that is not there, not its result as well.
    """

    def shows(facts: ResumeFacts) -> list[Evidence]:
        calls = {gap.call for gap in facts.gaps if gap.kind == "tool_progress"}
        found: dict[str, list[Any]] = {}
        for gap in facts.gaps:
            if gap.cut == cut and (gap.kind != "tool_summary" or gap.call not in calls):
                found.setdefault(LACKS[gap.kind], []).append(msgspec.to_builtins(gap))
        return [{PROBLEM: code, "missing": missing} for code, missing in found.items()]

    return shows


def gone(own: bool) -> EvidenceOf:
    """The session's folder is gone."""
    return lambda facts: when(not facts.folder.there and facts.folder.worktree == own, path=facts.folder.path)


def other_branch(facts: ResumeFacts) -> list[Evidence]:
    """The folder is on another branch."""
    folder = facts.folder
    then, now = folder.was_on, folder.is_on
    return when(None not in (then, now) and then != now, path=folder.path, was=then, now=now)


def other_folder(facts: ResumeFacts) -> list[Evidence]:
    """The store or the caller names another folder."""
    here = facts.folder.path
    places = (facts.store.cwd if facts.store is not None else None, facts.wanted)
    for there in places:
        if here is not None and there is not None and not _is_same(here, there):
            return [{"path": here, "other": there}]
    return []


def failed_twice(facts: ResumeFacts) -> list[Evidence]:
    """Two failures are the same one."""
    for place, failure in enumerate(facts.failures):
        if any(log_evidence.same(failure, other) for other in facts.failures[place + 1 :]):
            return [{"failures": list(facts.failures), "why": failure}]
    return []


def agreement(facts: ResumeFacts) -> list[Evidence]:
    """What the witnesses agree on."""
    store = facts.store
    shown = {
        "task": None if facts.last is None else facts.last.task,
        "turns": None if store is None else store.turns,
        "path": None if store is None else store.path,
    }
    return [shown]


def _shown(facts: ResumeFacts, problem: TranscriptProblem) -> Evidence:
    path = facts.store.path if facts.store is not None else None
    return {PROBLEM: problem.code, "what": problem.text, "path": path, **problem.evidence}


def _is_same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")
