"""Whether a folded log is sound, and whether Gemini's own resume would destroy it: facts in, problems out."""

from __future__ import annotations

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
    "torn_tail": "the last line is cut off; the next resume glues its own first line to it, and loses both",
    "bad_line": "lines that cannot be read, which Gemini passes over in silence",
    "nul_tail": "the file ends in NULs, as after a power cut",
    "glued_lines": "lines that hold more than one record, which Gemini cannot read",
}


class GeminiSurroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What lies around a session's file."""

    twins: tuple[str, ...] = ()  # other files with the same 8 digits, which Gemini deletes together
    rivals: tuple[str, ...] = ()  # of these, those with messages of this very session
    keeps: bool = False  # the settings say that nothing is deleted
    minute: str | None = None  # the newest file's, as its name tells it
    now: str = ""


class GeminiTurns(msgspec.Struct):
    """The turns of a conversation."""

    complete: bytearray = msgspec.field(default_factory=bytearray)  # of each
    replied: bool = False  # the last one
    error: str | None = None  # the program's own last word in the last one: where it is told


def turns(log: MutationLog) -> GeminiTurns:
    """What the conversation comes to; a turn is complete if its last word is an answer and not a call."""
    found = GeminiTurns()
    called = -1  # where the turn's last call was told, which may be in a message that came before
    for entry in log.conversation():
        if entry.kind == "user" and entry.is_said:
            found.complete.append(0)
            found.replied, found.error = False, None
            called = -1
        elif entry.kind == "error":
            found.error = entry.id
        elif entry.kind == "gemini" and entry.is_said:
            found.replied, found.error = True, None
            called = max([called, *[log.begun[call] for call, _ in entry.calls]])
            if found.complete:
                found.complete[-1] = entry.has_text and not entry.calls and called <= entry.first
        elif entry.kind == "result" and found.complete:
            found.complete[-1] = 0
    return found


def dangling(entry: LogMessage, log: MutationLog) -> bool:
    """Whether a message has a call whose end is told nowhere."""
    return any(not (told or log.has_result(call)) for call, told in entry.calls)


def judge(
    log: MutationLog, native_id: str, around: GeminiSurroundings, open_calls: list[dict[str, Any]]
) -> list[TranscriptProblem]:
    """What is wrong with a log that was asked for as that session."""
    if log.records == 0:
        return [TranscriptProblem("empty", "the file is empty; Gemini refuses it and deletes it later")]
    problems = []
    if not log.header_ids:
        text = "no line says whose file it is; Gemini refuses it and deletes it later"
        problems.append(TranscriptProblem("bad_header", text))
    elif others := [id for id in log.header_ids if id != native_id and id[:8] != native_id]:
        text = f"the file says that it is the session {others[0]}, not {native_id}"
        problems.append(TranscriptProblem("session_id_mismatch", text, {"in_file": list(log.header_ids)}))
    for code, shown in log.odd.items():
        evidence = {"count": log.counts[code], "first": shown}
        problems.append(TranscriptProblem(code, _TEXTS.get(code, code), evidence))
    if open_calls:
        named = ", ".join(str(call["name"]) for call in open_calls[:5])
        calls = {"calls": [call["call"] for call in open_calls]}
        problems.append(TranscriptProblem("dangling_call", f"calls without a result ({named})", calls))
    if orphans := _orphans(log):
        text = "results of calls that are not there"
        problems.append(TranscriptProblem("orphan_result", text, {"calls": orphans}))
    return problems + _last(log) + _dangers(log, around)


def is_sound(problems: list[TranscriptProblem]) -> bool:
    """Whether none of them would make a resume lose or repeat something."""
    return not any(problem.code in _UNSOUND for problem in problems)


def _last(log: MutationLog) -> list[TranscriptProblem]:
    conversation = log.conversation()
    if log.is_wiped:
        lost = {"messages": len(log.lost)}
        text = "a reset took messages out of the conversation; they are still in the file"
        return [TranscriptProblem("history_wiped", text, lost)]
    if not any(entry.is_said for entry in conversation):
        return [
            TranscriptProblem("no_messages", "nobody has said anything in it; Gemini deletes such a file")
        ]
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


def _dangers(log: MutationLog, around: GeminiSurroundings) -> list[TranscriptProblem]:
    """The states in which Gemini's own resume destroys the history (google-gemini/gemini-cli#27368)."""
    problems = []
    if around.twins:
        text = "several files share its 8 digits, by which Gemini deletes"
        problems.append(TranscriptProblem("multiple_files", text, {"others": list(around.twins)}))
        if not around.keeps:
            text = "the next session begun in this project deletes all files with its 8 digits"
            evidence = {"how": "orphan_files", "setting": "general.sessionRetention.enabled"}
            problems.append(TranscriptProblem(DESTROYS, text, evidence))
    if around.rivals:
        text = "more than one file holds messages of this session"
        problems.append(TranscriptProblem("ambiguous_store", text, {"others": list(around.rivals)}))
    if around.minute is not None and around.now.startswith(around.minute):
        text = "its file was made in this very minute: to load it now would reset it before it is read"
        after = timestamps.stamp(timestamps.parse(f"{around.minute}:00.000000Z") + 60)
        problems.append(TranscriptProblem(DESTROYS, text, {"how": "same_minute", "until": after}))
    if log.is_wiped and not any(entry.is_said for entry in log.conversation()):
        text = "Gemini takes the file for empty, and deletes it at its next start"
        if not around.keeps:
            problems.append(TranscriptProblem(DESTROYS, text, {"how": "reset"}))
    return problems
