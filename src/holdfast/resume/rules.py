"""The table of verdicts: each row a code, a sentence, and what shows that it applies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.model.task import ENDED
from holdfast.resume import log_evidence
from holdfast.resume.environment import Process
from holdfast.resume.facts import Facts
from holdfast.transcripts.reader import TranscriptProblem

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
        if any(log_evidence.same(failure, other) for other in facts.failures[place + 1 :]):
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


def _shown(facts: Facts, problem: TranscriptProblem) -> Evidence:
    path = facts.store.path if facts.store is not None else None
    return {PROBLEM: problem.code, "what": problem.text, "path": path, **problem.evidence}


def _is_same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")


# --- The table of verdicts: each row a code, a sentence, and what shows that it applies.

Action = Literal["resume", "fork", "fresh", "wait"]


class Row(NamedTuple):
    """One row of the table."""

    code: str
    action: Action
    fact: str  # for the documents
    text: str  # the sentence; {names} are of the evidence
    shows: Shows
    brief: bool = False  # a fresh run is told what happened
    fork: bool = False  # a copy up to the last whole turn will do as well


ROWS: tuple[Row, ...] = (
    Row(
        "task_running",
        "wait",
        "a task of this session runs or waits for its turn",
        "a task of this session is running: {tasks}",
        tasks,
    ),
    Row(
        "live_owner",
        "wait",
        "a living process has the agent's conversation open",
        "a living process holds this conversation: {processes}",
        lambda facts: processes(facts.owners),
    ),
    Row(
        "tools_running",
        "wait",
        "tools of a run that is dead still run",
        "what the dead run had started still runs: {processes}",
        lambda facts: processes(facts.tools),
    ),
    Row(
        "other_host",
        "wait",
        "the session is on another host, whose store and processes cannot be seen from here",
        "this session is on {host}, and can only be judged there",
        lambda facts: when(facts.elsewhere is not None, host=facts.elsewhere),
    ),
    Row(
        "too_soon",
        "wait",
        "the agent would destroy a conversation that it has begun in this very minute (Gemini)",
        "{what}; wait until {until}",
        too_soon,
    ),
    Row(
        "no_token",
        "fresh",
        "there is no token",
        "the agent never named a conversation that could be gone on with",
        lambda facts: when(facts.token is None and facts.revoked is None),
    ),
    Row(
        "token_revoked",
        "fresh",
        "its token was revoked",
        "its token was revoked: {why}",
        lambda facts: when(facts.revoked is not None, why=facts.revoked),
    ),
    Row(
        "last_interrupted",
        "fresh",
        "the last task was interrupted",
        "the last task, {task}, was interrupted: {why}",
        last("interrupted"),
        brief=True,
        fork=True,
    ),
    Row(
        "last_cancelled",
        "fresh",
        "the last task was cancelled, and nobody has said since that the session can be trusted",
        "the last task, {task}, was cancelled: {why}",
        last("cancelled"),
        brief=True,
        fork=True,
    ),
    Row(
        "last_failed",
        "fresh",
        "the last task failed without an answer, and nobody has said since that the session can be trusted",
        "the last task, {task}, failed without an answer: {why}",
        last("failed"),
        brief=True,
        fork=True,
    ),
    Row(
        "last_unrecorded",
        "fresh",
        "there is a token, and no record of the task that brought it",
        "what the agent did last in this conversation was never recorded",
        lambda facts: when(facts.missing),
        brief=True,
        fork=True,
    ),
    Row(
        "never_begun",
        "fresh",
        "the agent never showed that it took a prompt in this conversation",
        "the agent never showed that it took a prompt in the conversation {token}",
        lambda facts: when(facts.token is not None and not facts.proven, token=facts.token),
    ),
    Row(
        "other_protocol",
        "fresh",
        "the conversation is of a mode of the agent that Holdfast does not drive",
        "the conversation is one of the agent's {protocol} mode, which Holdfast does not drive",
        lambda facts: when(facts.other_protocol is not None, protocol=facts.other_protocol),
    ),
    Row(
        "store_unknown",
        "fresh",
        "Holdfast does not know how this agent keeps its history",
        "Holdfast does not know how {agent} keeps its history, so nobody can tell what it would remember",
        unread,
    ),
    Row(
        "store_missing",
        "fresh",
        "the agent's own history is gone or empty",
        "the agent has no history of this conversation any more: {what}",
        problems(*STORE["store_missing"]),
    ),
    Row(
        "store_shrunk",
        "fresh",
        "the agent's own history is shorter than, or other than, what was seen before",
        "the agent's own history has lost something since we last saw it: {what}",
        problems(*STORE["store_shrunk"]),
    ),
    Row(
        "store_torn",
        "fresh",
        "the agent's own history is torn or cannot be read",
        "the agent's own history is damaged: {what}",
        problems(*STORE["store_torn"]),
    ),
    Row(
        "store_forked",
        "fresh",
        "the agent's own history parts in two: two processes wrote to it",
        "two processes have written to this conversation: {what}",
        problems(*STORE["store_forked"]),
    ),
    Row(
        "store_broken",
        "fresh",
        "records of the agent's own history do not follow from each other",
        "the agent's own history is broken: {what}",
        problems(*STORE["store_broken"]),
    ),
    Row(
        "store_ambiguous",
        "fresh",
        "several histories could be this conversation's",
        "it cannot be told which history is this conversation's: {what}",
        problems(*STORE["store_ambiguous"]),
    ),
    Row(
        "store_destroyed",
        "fresh",
        "the agent's own way of resuming would destroy its history",
        "a resume would destroy the agent's own history: {what}",
        destroys,
    ),
    Row(
        "store_unfinished",
        "fresh",
        "the last turn in the agent's own history has no end",
        "the agent's own history is not finished: {what}",
        problems(*STORE["store_unfinished"]),
        brief=True,
        fork=True,
    ),
    Row(
        "store_unsound",
        "fresh",
        "the agent's own history is not sound for any other reason",
        "the agent's own history is not sound: {what}",
        unsound,
    ),
    Row(
        "dangling_call",
        "fresh",
        "a tool call in the agent's own history has no result",
        "calls that have no result in the agent's own history: {names}",
        dangling,
        brief=True,
        fork=True,
    ),
    Row(
        "memory_gap",
        "fresh",
        "the stream showed prompts, calls or results that the agent's own history lacks",
        "the agent would not remember what it did: {missing}",
        gap(cut=False),
        brief=True,
    ),
    Row(
        "cut_gap",
        "fresh",
        "the same, of the turn that was cut short: a copy leaves that turn out, and the brief tells of it",
        "the agent would not remember what it did in the turn that was cut short: {missing}",
        gap(cut=True),
        brief=True,
        fork=True,
    ),
    Row(
        "folder_gone",
        "fresh",
        "the folder that it worked in is gone",
        "the folder {path} is gone",
        gone(own=False),
    ),
    Row(
        "worktree_gone",
        "fresh",
        "its worktree is gone",
        "its worktree {path} is gone, and what was not committed there with it",
        gone(own=True),
    ),
    Row(
        "other_branch",
        "fresh",
        "its folder is on another branch than when the last task ended",
        "{path} is on the branch {now}, and was on {was} when the last task ended",
        other_branch,
    ),
    Row(
        "other_folder",
        "fresh",
        "the agent's conversation, or the caller, is in another folder than the session",
        "the session is in {path}, not in {other}",
        other_folder,
    ),
    Row(
        "resume_failed",
        "fresh",
        "a resume of this token has failed twice in the same way",
        "it could not be resumed before, twice for the same reason: {why}",
        failed_twice,
    ),
)

SOUND = Row(
    "sound",
    "resume",
    "the last task succeeded, and the log, the agent's own history and the process table agree",
    "the last task ended well, and the log, the agent's own history and the process table agree",
    agreement,
)

# Where a piece of evidence has a code of its own, that is the code of the reason.
_FINER = {code: row for row, codes in STORE.items() for code in codes} | dict.fromkeys(
    LACKS.values(), "memory_gap"
)
_BY_CODE = {row.code: row for row in (*ROWS, SOUND)}


def row_of(code: str) -> Row:
    """The row that a reason comes from."""
    return _BY_CODE.get(_FINER.get(code, code), _BY_CODE["store_unsound"])


def codes_of(row: Row) -> list[str]:
    """The codes that its reasons may have."""
    of = "memory_gap" if row.code == "cut_gap" else row.code  # they are told by the same codes
    finer = [code for code, name in _FINER.items() if name == of]
    return finer or [row.code]
