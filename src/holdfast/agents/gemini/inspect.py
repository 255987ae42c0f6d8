"""Is a chat file sound, and would Gemini's own resume destroy it? Facts in, problems out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast import timestamps
from holdfast.agents.gemini.log import LogMessage, MutationLog
from holdfast.transcripts.reader import TranscriptProblem

DESTROYS = "resume_destroys_history"

_UNSOUND = frozenset(
    {
        "empty",
        "bad_header",
        "no_messages",
        "no_transcript",
        "store_damaged",
        "session_id_mismatch",
        "history_wiped",
        "ambiguous_store",
        DESTROYS,
        "torn_tail",
        "bad_line",
        "nul_tail",
        "glued_lines",
        "orphan_result",
        "dangling_call",
        "turn_unfinished",
        "no_reply",
    }
)
_TEXTS = {
    "torn_tail": "the last line is cut off; the next resume glues its first line to it and loses both",
    "bad_line": "some lines cannot be read; Gemini skips them silently",
    "nul_tail": "the file ends in NULs, as after a power cut",
    "glued_lines": "some lines hold more than one record, which Gemini cannot read",
}


class GeminiSurroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The files and settings around a session's file."""

    twins: tuple[str, ...] = ()  # other files with the same 8 digits, which Gemini deletes together
    rivals: tuple[str, ...] = ()  # those of them with messages of this session
    keeps: bool = False  # the settings prevent deletion
    minute: str | None = None  # the minute in the newest file's name
    now: str = ""


class GeminiTurns(msgspec.Struct):
    """The turns of a conversation."""

    complete: bytearray = msgspec.field(default_factory=bytearray)  # one byte per turn
    replied: bool = False  # the last turn has a reply
    error: str | None = None  # the program's own last error in the last turn, and where it is


def turns(log: MutationLog) -> GeminiTurns:
    """The turns of the conversation. A turn is complete if it ends with an answer and not with a call."""
    result = GeminiTurns()
    called = -1  # where the turn's last call is, possibly in an earlier message
    for entry in log.conversation():
        if entry.kind == "user" and entry.is_message:
            result.complete.append(0)
            result.replied, result.error = False, None
            called = -1
        elif entry.kind == "error":
            result.error = entry.id
        elif entry.kind == "gemini" and entry.is_message:
            result.replied, result.error = True, None
            called = max([called, *[log.begun[call] for call, _ in entry.calls]])
            if result.complete:
                result.complete[-1] = entry.has_text and not entry.calls and called <= entry.first
        elif entry.kind == "result" and result.complete:
            result.complete[-1] = 0
    return result


def dangling(entry: LogMessage, log: MutationLog) -> bool:
    """Whether a message has a call without a result."""
    return any(not (has_end or log.has_result(call)) for call, has_end in entry.calls)


def find_problems(
    log: MutationLog, native_id: str, around: GeminiSurroundings, open_calls: list[dict[str, Any]]
) -> list[TranscriptProblem]:
    """The problems of a log that was requested as this session."""
    if log.records == 0:
        return [TranscriptProblem("empty", "the file is empty; Gemini refuses it and deletes it later")]
    problems = []
    if not log.header_ids:
        text = "no line names the session; Gemini refuses the file and deletes it later"
        problems.append(TranscriptProblem("bad_header", text))
    elif others := [id for id in log.header_ids if id != native_id and id[:8] != native_id]:
        text = f"the file belongs to session {others[0]}, not {native_id}"
        problems.append(TranscriptProblem("session_id_mismatch", text, {"in_file": list(log.header_ids)}))
    for code, examples in log.odd.items():
        evidence = {"count": log.counts[code], "first": examples}
        problems.append(TranscriptProblem(code, _TEXTS.get(code, code), evidence))
    if open_calls:
        named = ", ".join(str(call["name"]) for call in open_calls[:5])
        calls = {"calls": [call["call"] for call in open_calls]}
        problems.append(TranscriptProblem("dangling_call", f"calls without a result ({named})", calls))
    if orphans := _orphans(log):
        text = "results have no call"
        problems.append(TranscriptProblem("orphan_result", text, {"calls": orphans}))
    return problems + _last(log) + _deletion_risks(log, around)


def is_sound(problems: Sequence[TranscriptProblem]) -> bool:
    """Whether a resume loses nothing and repeats nothing in spite of these problems."""
    return not any(problem.code in _UNSOUND for problem in problems)


def _last(log: MutationLog) -> list[TranscriptProblem]:
    conversation = log.conversation()
    if log.is_wiped:
        lost = {"messages": len(log.lost)}
        text = "a reset removed messages from the conversation; they are still in the file"
        return [TranscriptProblem("history_wiped", text, lost)]
    if not any(entry.is_message for entry in conversation):
        return [TranscriptProblem("no_messages", "it has no messages; Gemini deletes such a file")]
    last = turns(log)
    evidence = {"turn": len(last.complete)}
    if last.error is not None:
        return [TranscriptProblem("ended_in_api_error", "the last turn ended in an error", evidence)]
    if not last.replied:
        return [TranscriptProblem("no_reply", "the last prompt has no answer", evidence)]
    if last.complete and not last.complete[-1]:
        return [
            TranscriptProblem("turn_unfinished", "the last turn has no answer after its last call", evidence)
        ]
    return []


def _orphans(log: MutationLog) -> list[str]:
    called = {call for entry in log.entries.values() for call, _ in entry.calls}
    return [call for call in log.results if call not in called and not call.startswith("name:")][:20]


def _deletion_risks(log: MutationLog, around: GeminiSurroundings) -> list[TranscriptProblem]:
    """The states in which Gemini's own resume destroys the history (google-gemini/gemini-cli#27368)."""
    problems = []
    if around.twins:
        text = "several files share its 8 digits, by which Gemini deletes files"
        problems.append(TranscriptProblem("multiple_files", text, {"others": list(around.twins)}))
        if not around.keeps:
            text = "the next session in this project deletes all files with its 8 digits"
            evidence = {"how": "orphan_files", "setting": "general.sessionRetention.enabled"}
            problems.append(TranscriptProblem(DESTROYS, text, evidence))
    if around.rivals:
        text = "more than one file holds messages of this session"
        problems.append(TranscriptProblem("ambiguous_store", text, {"others": list(around.rivals)}))
    if around.minute is not None and around.now.startswith(around.minute):
        text = "its file was created in this minute: loading it now would reset it before it is read"
        after = timestamps.stamp(timestamps.parse(f"{around.minute}:00.000000Z") + 60)
        problems.append(TranscriptProblem(DESTROYS, text, {"how": "same_minute", "until": after}))
    if log.is_wiped and not any(entry.is_message for entry in log.conversation()):
        text = "Gemini considers the file empty and deletes it at its next start"
        if not around.keeps:
            problems.append(TranscriptProblem(DESTROYS, text, {"how": "reset"}))
    return problems
