"""What is wrong with a session: a pure judgement of its chart, in the words of the findings."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.peers.hermes import inspect
from holdfast.peers.hermes.conversation import HermesConversation
from holdfast.peers.hermes.messages import read_message
from holdfast.peers.hermes.session_state import SessionState
from holdfast.peers.hermes.sidecar import Sidecar
from holdfast.transcripts.reader import TranscriptProblem


def session_problems(chart: SessionState) -> list[TranscriptProblem]:
    """Everything that is not as it should be; the folder as a whole is looked at elsewhere."""
    facts = chart.facts
    if facts.deleted:
        if facts.header is None and facts.backup.state == "absent":
            return []
        text = "it was deleted in the web UI; what is left of it stays deleted"
        return [TranscriptProblem("deleted_tombstone", text, {"database": facts.database})]
    found = [
        *inspect.file_problems(facts),
        *inspect.copy_problems(facts, _story(chart)),
        *inspect.stream_problems(facts, _turns(chart), chart.now),
        *_orphans(facts.live),
    ]
    foreign = any(problem.code == "foreign_file" for problem in found)  # a matter of the folder
    return [problem for problem in found if problem.code != "run_still_open" and not foreign]


def problem_key(problem: TranscriptProblem) -> tuple[str, str]:
    """What tells a problem from the others of its session."""
    return problem.code, problem_part(problem)


def problem_part(problem: TranscriptProblem) -> str:
    """What tells it from others of its code."""
    return str(problem.evidence.get("turn", "")) if problem.code == "journal_pending_turn" else ""


def _story(chart: SessionState) -> HermesConversation:
    """Its copies put together; of a single one that repeats nothing there is nothing to say."""
    facts = chart.facts
    alone = not chart.rows and facts.backup.state == "absent" and facts.live.state == "whole"
    if alone and not any(isinstance(told, dict) and told.get("_partial") for told in facts.live.messages):
        absent = Sidecar(path=facts.live.path, state="absent")
        return HermesConversation(msgspec.structs.replace(facts, live=absent), None)
    return chart.story()


def _turns(chart: SessionState) -> list[Any]:
    return [turn for turn, _ in chart.turns() if not inspect.is_fresh(turn, chart.now)]


def _orphans(live: Sidecar) -> list[TranscriptProblem]:
    if live.state != "whole":
        return []
    calls = orphan_results(live.context or live.messages)
    if not calls:
        return []
    text = "results of tools whose calls are nowhere would be sent to the model, which may refuse them"
    shown = {"calls": [call for _, call in calls[:20]], "count": len(calls)}
    return [TranscriptProblem("orphan_tool_row", text, shown)]


def orphan_results(messages: list[Any]) -> list[tuple[int, str]]:
    """The places of results whose call is not before them, and what they say they answer."""
    if not any(isinstance(told, dict) and told.get("role") == "tool" for told in messages):
        return []
    called: set[str] = set()
    found = []
    for place, told in enumerate(messages):
        if not isinstance(told, dict):
            continue
        message = read_message(told, "sidecar", str(place))
        if message.role == "tool" and (not message.result_of or message.result_of not in called):
            found.append((place, message.result_of or ""))
        called.update(call.id for call in message.calls if call.id)
    return found


# --- What the plan does about a finding, in words.

_TOGETHER = "the sidecar is written anew with every message that any copy has"

ACTIONS = {
    "shrunken_live": "what only the backup has is put back beside what is newer",
    "live_behind_db": "what only the agent's database has is put back",
    "content_diverged": "what was said before is put back in front of what was said since",
    "torn_live": f"{_TOGETHER}; the torn bytes are kept",
    "empty_live": _TOGETHER,
    "malformed_session": _TOGETHER,
    "orphan_backup": "the sidecar is made again from its backup and the agent's database",
    "missing_sidecar": "the sidecar is made again from the agent's database",
    "session_id_mismatch": "the sidecar is given the id that its name, and its row or backup, tell",
    "count_mismatch": "the number is set to what is there",
    "duplicate_partials": "one of each stays",
    "lone_surrogate": "the half character becomes a mark, so that the session can be saved again",
    "orphan_tool_row": "the model is told no longer of results without calls; the messages stay",
    "stale_stream": "the prompt and what its run had told become messages, and the turn is marked as cut off",
    "journal_pending_turn": "the prompt and what its run had told become messages",
    "index_missing": "the index is made anew",
    "index_corrupt": "the index is made anew",
    "index_stale": "what is missing is listed, and what is gone no longer",
    "tmp_litter": "those are removed that hold nothing that is not elsewhere",
}
