"""The table of verdicts: each row a code, a sentence, and what shows that it applies."""

from __future__ import annotations

from typing import Literal, NamedTuple

from holdfast.resume.rule_evidence import (
    API_ERROR,
    LACKS,
    STOPPED,
    STORE,
    EvidenceOf,
    adopted,
    answered,
    api_error,
    archived,
    dangling,
    destroys,
    failed_twice,
    gap,
    gone,
    last,
    leftovers,
    not_started,
    other_branch,
    other_folder,
    problems,
    processes,
    stopped,
    succeeded,
    tasks,
    too_soon,
    unread,
    unsound,
    vouched,
    when,
)

Action = Literal["resume", "fork", "fresh", "wait"]


class VerdictRule(NamedTuple):
    """One row of the table."""

    code: str
    action: Action
    fact: str  # for the documents
    text: str  # the sentence; {names} are of the evidence
    shows: EvidenceOf
    brief: bool = False  # a fresh run is told what happened
    fork: bool = False  # a copy up to the last whole turn will do as well


RULES: tuple[VerdictRule, ...] = (
    VerdictRule(
        "task_running",
        "wait",
        "a task of this session runs or waits for its turn",
        "a task of this session is running: {tasks}",
        tasks,
    ),
    VerdictRule(
        "live_owner",
        "wait",
        "a living process has the agent's conversation open",
        "a living process holds this conversation: {processes}",
        lambda facts: processes(facts.owners),
    ),
    VerdictRule(
        "tools_running",
        "wait",
        "tools of a run that is dead still run",
        "what the last run started still runs: {processes}",
        leftovers,
    ),
    VerdictRule(
        "other_host",
        "wait",
        "the session is on another node, whose store and processes cannot be seen from here",
        "this session is on node {host}, and can only be judged there",
        lambda facts: when(facts.elsewhere is not None, host=facts.elsewhere),
    ),
    VerdictRule(
        "too_soon",
        "wait",
        "the agent would destroy a conversation that it has begun in this very minute (Gemini)",
        "{what}; wait until {until}",
        too_soon,
    ),
    VerdictRule(
        "no_token",
        "fresh",
        "there is no token",
        "the agent never named a conversation, so there is nothing to resume",
        lambda facts: when(facts.token is None and facts.revoked is None),
    ),
    VerdictRule(
        "token_revoked",
        "fresh",
        "its token was revoked",
        "its token was revoked: {why}",
        lambda facts: when(facts.revoked is not None, why=facts.revoked),
    ),
    VerdictRule(
        "last_interrupted",
        "fresh",
        "the last task was interrupted",
        "the last task, {task}, was interrupted: {why}",
        last("interrupted"),
        brief=True,
        fork=True,
    ),
    VerdictRule(
        "last_cancelled",
        "fresh",
        "the last task was cancelled, and nobody has said since that the session can be trusted",
        "the last task, {task}, was cancelled: {why}",
        last("cancelled"),
        brief=True,
        fork=True,
    ),
    VerdictRule(
        "last_failed",
        "fresh",
        "the last task failed without an answer, and nobody has said since that the session can be trusted",
        "the last task, {task}, failed without an answer: {why}",
        last("failed"),
        brief=True,
        fork=True,
    ),
    VerdictRule(
        STOPPED,
        "fresh",
        "a person stopped the last turn, outside of Holdfast",
        "the last turn was stopped by a person, outside of Holdfast: {what}",
        stopped,
        brief=True,
        fork=True,
    ),
    VerdictRule(
        "crashed_elsewhere",
        "fresh",
        "the tool that the session was imported from recorded a crash, and no task has run since",
        "{what}, and no task has run since",
        lambda facts: when(facts.crashed is not None, what=facts.crashed),
        brief=True,
        fork=True,
    ),
    VerdictRule(
        "last_unrecorded",
        "fresh",
        "there is a token, and no record of the task that brought it",
        "what the agent did last in this conversation was never recorded",
        lambda facts: when(facts.missing),
        brief=True,
        fork=True,
    ),
    VerdictRule(
        "never_begun",
        "fresh",
        "the agent never showed that it took a prompt in this conversation",
        "the agent never showed that it took a prompt in the conversation {token}",
        lambda facts: when(facts.token is not None and not facts.proven, token=facts.token),
    ),
    VerdictRule(
        "other_protocol",
        "fresh",
        "the conversation is of a mode of the agent that Holdfast does not drive",
        "the conversation is one of the agent's {protocol} mode, which Holdfast does not drive",
        lambda facts: when(facts.other_protocol is not None, protocol=facts.other_protocol),
    ),
    VerdictRule(
        "store_unknown",
        "fresh",
        "Holdfast does not know how this agent keeps its history",
        "Holdfast does not know how {agent} keeps its history, so nobody can tell what it would remember",
        unread,
    ),
    VerdictRule(
        "store_missing",
        "fresh",
        "the agent's own history is gone or empty",
        "the agent has no history of this conversation any more: {what}",
        problems(*STORE["store_missing"]),
    ),
    VerdictRule(
        "store_shrunk",
        "fresh",
        "the agent's own history is shorter than, or other than, what was seen before",
        "the agent's own history has lost something since we last saw it: {what}",
        problems(*STORE["store_shrunk"]),
    ),
    VerdictRule(
        "store_torn",
        "fresh",
        "the agent's own history is torn or cannot be read",
        "the agent's own history is damaged: {what}",
        problems(*STORE["store_torn"]),
    ),
    VerdictRule(
        "store_forked",
        "fresh",
        "the agent's own history parts in two: two processes wrote to it",
        "two processes have written to this conversation: {what}",
        problems(*STORE["store_forked"]),
    ),
    VerdictRule(
        "store_broken",
        "fresh",
        "records of the agent's own history do not follow from each other",
        "the agent's own history is broken: {what}",
        problems(*STORE["store_broken"]),
    ),
    VerdictRule(
        "store_ambiguous",
        "fresh",
        "several histories could be this conversation's",
        "it cannot be told which history is this conversation's: {what}",
        problems(*STORE["store_ambiguous"]),
    ),
    VerdictRule(
        "store_destroyed",
        "fresh",
        "the agent's own way of resuming would destroy its history",
        "a resume would destroy the agent's own history: {what}",
        destroys,
    ),
    VerdictRule(
        "store_unfinished",
        "fresh",
        "the last turn in the agent's own history has no end",
        "the agent's own history is not finished: {what}",
        problems(*STORE["store_unfinished"]),
        brief=True,
        fork=True,
    ),
    VerdictRule(
        "store_unsound",
        "fresh",
        "the agent's own history is not sound for any other reason",
        "the agent's own history is not sound: {what}",
        unsound,
    ),
    VerdictRule(
        "dangling_call",
        "fresh",
        "a tool call in the agent's own history has no result",
        "calls that have no result in the agent's own history: {names}",
        dangling,
        brief=True,
        fork=True,
    ),
    VerdictRule(
        "memory_gap",
        "fresh",
        "the stream showed prompts, calls or results that the agent's own history lacks",
        "the agent would not remember what it did: {missing}",
        gap(cut=False),
        brief=True,
    ),
    VerdictRule(
        "cut_gap",
        "fresh",
        "the same, of the turn that was cut short: a copy leaves that turn out, and the brief tells of it",
        "the agent would not remember what it did in the turn that was cut short: {missing}",
        gap(cut=True),
        brief=True,
        fork=True,
    ),
    VerdictRule(
        "folder_gone",
        "fresh",
        "the folder that it worked in is gone",
        "the folder {path} is gone",
        gone(own=False),
    ),
    VerdictRule(
        "worktree_gone",
        "fresh",
        "its worktree is gone",
        "its worktree {path} is gone, and what was not committed there with it",
        gone(own=True),
    ),
    VerdictRule(
        "other_branch",
        "fresh",
        "its folder is on another branch than when the last task ended",
        "{path} is on the branch {now}, and was on {was} when the last task ended",
        other_branch,
    ),
    VerdictRule(
        "other_folder",
        "fresh",
        "the agent's conversation, or the caller, is in another folder than the session",
        "the session is in {path}, not in {other}",
        other_folder,
    ),
    VerdictRule(
        "resume_failed",
        "fresh",
        "a resume of this token has failed twice in the same way",
        "it could not be resumed before, twice for the same reason: {why}",
        failed_twice,
    ),
)

# Where no row above applies the session is safe to resume; each of these says why, and only what is true.
SAFE_RULES: tuple[VerdictRule, ...] = (
    VerdictRule(
        "sound",
        "resume",
        "the last task succeeded, and the log, the agent's own history and the process table agree",
        "the last task ended well, and the log, the agent's own history and the process table agree",
        succeeded,
    ),
    VerdictRule(
        "failed_with_answer",
        "resume",
        "the last task failed (a refusal, max tokens), but the agent ended its turn with an answer",
        "the last task, {task}, did not succeed: {why}. It is safe to resume: the agent ended its turn "
        "with an answer, and no tool call is half done",
        answered,
    ),
    VerdictRule(
        "trusted",
        "resume",
        "the last task was cancelled or failed, and somebody has said since that the session can be trusted",
        "the last task, {task}, ended as {status}: {why}. "
        "It is safe to resume: {by} has said so since: {reason}",
        vouched,
    ),
    VerdictRule(
        "adopted_sound",
        "resume",
        "no task of Holdfast has run in this conversation, and its last turn has ended",
        "no task of Holdfast has run in this conversation. In the agent's own history its last turn has "
        "ended, no tool call is half done, and no process holds it",
        adopted,
    ),
    VerdictRule(
        API_ERROR,
        "resume",
        "the last turn ended in an error of the agent's service, outside of Holdfast",
        "the last turn ended in an error of the agent's service: {what}. It is safe to resume: "
        "no tool call is half done",
        api_error,
    ),
    VerdictRule(
        "last_not_started",
        "resume",
        "the last task failed before it reached the agent, so it changed nothing",
        "the last task, {task}, ended as {status} before it reached the agent: {why}. "
        "It changed nothing, so the conversation is as safe to resume as before it",
        not_started,
    ),
)

# Said behind all other reasons; it does not change what may be done with the conversation.
ARCHIVED_RULE = VerdictRule(
    "archived",
    "resume",
    "the session is archived; the text names the commands that continue it, and the session that has its key",
    "{what}",
    archived,
)

# Where a piece of evidence has a code of its own, that is the code of the reason.
_FINER = {code: row for row, codes in STORE.items() for code in codes} | dict.fromkeys(
    LACKS.values(), "memory_gap"
)
_BY_CODE = {row.code: row for row in (*RULES, *SAFE_RULES, ARCHIVED_RULE)}


def rule_of(code: str) -> VerdictRule:
    """The row that a reason comes from."""
    return _BY_CODE.get(_FINER.get(code, code), _BY_CODE["store_unsound"])


def codes_of(row: VerdictRule) -> list[str]:
    """The codes that its reasons may have."""
    of = "memory_gap" if row.code == "cut_gap" else row.code  # they are told by the same codes
    finer = [code for code, name in _FINER.items() if name == of]
    return finer or [row.code]
