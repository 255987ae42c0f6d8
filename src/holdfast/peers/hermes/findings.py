"""What is wrong with a session, and what the plan does about each finding."""

from __future__ import annotations

from typing import Any

from holdfast.peers.hermes import inspect, journal
from holdfast.peers.hermes.conversation import HermesConversation
from holdfast.peers.hermes.facts import HermesFacts
from holdfast.peers.hermes.messages import read_message
from holdfast.peers.hermes.sidecar import Sidecar
from holdfast.transcripts.reader import TranscriptProblem

_REWRITTEN = "rewrite the sidecar with every message that any copy has"

ACTIONS = {
    "shrunken_live": "restore the messages that only the backup has; newer messages stay",
    "live_behind_db": "restore the messages that only the agent's database has",
    "content_diverged": "restore the older messages in front of the newer ones",
    "torn_live": f"{_REWRITTEN}; the damaged bytes are kept in a backup",
    "empty_live": _REWRITTEN,
    "malformed_session": _REWRITTEN,
    "orphan_backup": "recreate the sidecar from its backup and the agent's database",
    "missing_sidecar": "recreate the sidecar from the agent's database",
    "session_id_mismatch": "set the sidecar's id to the one that its file name and its row or backup have",
    "count_mismatch": "set the count to the actual number of messages",
    "duplicate_partials": "keep one copy of each partial answer",
    "lone_surrogate": "replace the half character with a replacement mark, so that the session can be saved",
    "orphan_tool_row": "stop sending results without calls to the model; the messages stay",
    "stale_stream": "add the prompt and the recorded output as messages, and mark the turn as interrupted",
    "journal_pending_turn": "add the prompt and the recorded output as messages",
    "index_missing": "rebuild the index",
    "index_corrupt": "rebuild the index",
    "index_stale": "add the missing sessions to the index and remove the ones that are gone",
    "tmp_litter": "remove the temporary files whose content is also stored elsewhere",
}


def session_problems(
    facts: HermesFacts,
    conversation: HermesConversation,
    turns: list[journal.JournaledTurn],
    now: float,
) -> list[TranscriptProblem]:
    """Everything that is wrong with one session; `turns` are those that never finished."""
    if facts.deleted:
        if facts.header is None and facts.backup.state == "absent":
            return []
        return [inspect.deleted_problem(facts)]
    found = [
        *inspect.file_problems(facts),
        *inspect.copy_problems(facts, conversation),
        *inspect.stream_problems(facts, turns, now),
        *_orphan_problems(facts.live),
    ]
    foreign = any(problem.code == "foreign_file" for problem in found)  # a problem of the folder
    return [problem for problem in found if problem.code != "run_still_open" and not foreign]


def problem_key(problem: TranscriptProblem) -> tuple[str, str]:
    """What distinguishes a problem from the others of its session."""
    return problem.code, problem_part(problem)


def problem_part(problem: TranscriptProblem) -> str:
    """What distinguishes a problem from others with its code."""
    return str(problem.evidence.get("turn", "")) if problem.code == "journal_pending_turn" else ""


def orphan_results(messages: list[Any]) -> list[tuple[int, str]]:
    """The positions of tool results whose call does not come before them, and the call that each names."""
    if not any(isinstance(raw, dict) and raw.get("role") == "tool" for raw in messages):
        return []
    called: set[str] = set()
    found = []
    for position, raw in enumerate(messages):
        if not isinstance(raw, dict):
            continue
        message = read_message(raw, "sidecar", str(position))
        if message.role == "tool" and (not message.result_of or message.result_of not in called):
            found.append((position, message.result_of or ""))
        called.update(call.id for call in message.calls if call.id)
    return found


def _orphan_problems(live: Sidecar) -> list[TranscriptProblem]:
    if live.state != "whole":
        return []
    calls = orphan_results(live.context or live.messages)
    if not calls:
        return []
    text = "the model would get tool results whose calls are missing, and may refuse them"
    evidence = {"calls": [call for _, call in calls[:20]], "count": len(calls)}
    return [TranscriptProblem("orphan_tool_row", text, evidence)]
