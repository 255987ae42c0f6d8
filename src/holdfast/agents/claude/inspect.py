"""Is a transcript sound? Facts in, problems out."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from holdfast.agents.claude import records, stream
from holdfast.agents.claude.events import HELPERS
from holdfast.agents.claude.logical_order import logical_order
from holdfast.agents.claude.records import ClaudeRecord, blocks
from holdfast.agents.claude.transcript import TranscriptPiece
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import TranscriptProblem

# The role of a record in its turn.
OTHER, PROMPT, QUEUED, TEXT, CUT, THINKING, CALL, RESULT, API_ERROR, INTERRUPTED = range(10)

_KINDS = {"text": TEXT, "thinking": THINKING, "redacted_thinking": THINKING}
MOST = 100  # how many examples of a problem are listed


class ClaudeToolCall(msgspec.Struct, gc=False):
    """One tool call."""

    name: str
    record: int  # its number
    offset: int
    side: bool  # a subagent made it
    results: int = 0


class ClaudeFacts(msgspec.Struct):
    """Facts about the chained records, by their number in the file."""

    names: dict[int, int] = {}  # by the uuid's hash
    above: array[int] = msgspec.field(default_factory=lambda: array("q"))  # the parent's hash; 0: none
    logical: set[int] = set()  # records whose parent is only a logical one
    kinds: bytearray = msgspec.field(default_factory=bytearray)
    messages: array[int] = msgspec.field(default_factory=lambda: array("q"))  # the message id's hash; 0: none
    sides: set[int] = set()  # records of subagents
    calls: dict[str, ClaudeToolCall] = {}
    results: dict[str, int] = {}  # results without a call so far -> how many
    unknown: list[str] = []  # calls that a resume closed
    sessions: dict[str, int] = {}  # session id -> how many records have it
    doubled: list[str] = []  # duplicate uuids
    bad: list[tuple[str, int]] = []  # problem code and line number
    conversed: bool = False  # there is a message
    ended: bool = True  # the file ends with a newline
    any: bool = False  # the file is not empty


def collect_facts(pieces: Iterable[TranscriptPiece]) -> ClaudeFacts:
    """Collect the facts of all pieces."""
    facts = ClaudeFacts()
    for piece in pieces:
        facts.any = True
        record = piece.record
        if piece.odd is not None:
            facts.ended = piece.odd.ended
            if piece.odd.problem is not None and len(facts.bad) < MOST:
                facts.bad.append((piece.odd.problem, piece.odd.number))
        else:
            facts.ended = piece.raw.endswith(b"\n")
        if record is not None and record.uuid is not None:
            _take(facts, record, piece.offset)
    return facts


def last_is_nul(facts: ClaudeFacts) -> bool:
    """Whether it ends with only NULs."""
    return bool(facts.bad) and facts.bad[-1][0] == jsonl.NULS


def _take(facts: ClaudeFacts, record: ClaudeRecord, offset: int) -> None:
    uuid = record.uuid or ""
    number = len(facts.kinds)
    if facts.names.setdefault(hash(uuid), number) != number:
        facts.doubled.append(uuid) if len(facts.doubled) < MOST else None
        return
    side = bool(record.is_sidechain)
    above = record.parent_uuid or record.logical_parent_uuid
    facts.above.append(0 if above is None else hash(above) or 1)
    facts.messages.append(0)
    if record.parent_uuid is None and above is not None:
        facts.logical.add(number)
    if side:
        facts.sides.add(number)
    elif record.session_id is not None and len(facts.sessions) < MOST:
        facts.sessions[record.session_id] = facts.sessions.get(record.session_id, 0) + 1
    facts.kinds.append(_kind(facts, record, number, offset, side))
    facts.conversed |= not side and record.type in ("user", "assistant")


def _kind(facts: ClaudeFacts, record: ClaudeRecord, number: int, offset: int, side: bool) -> int:
    if record.type == "assistant":
        return _of_model(facts, record, number, offset, side)
    if record.type == "attachment":
        queued = records.queued_prompt(record)
        return QUEUED if queued is not None and queued[0] == "prompt" else OTHER
    if record.type != "user":
        return OTHER
    spoken = records.user_speaker(record)
    if spoken == "results":
        for block in blocks(record):
            _result(facts, block)
        return RESULT
    if spoken == "interrupted":
        return INTERRUPTED
    content = record.message.content if record.message is not None else None
    return PROMPT if spoken == "prompt" and content else OTHER


def _of_model(facts: ClaudeFacts, record: ClaudeRecord, number: int, offset: int, side: bool) -> int:
    message = record.message
    if message is None:
        return OTHER
    facts.messages[number] = hash(message.id) if message.id is not None else 0
    if record.error or record.is_api_error_message:
        return API_ERROR
    if message.model == "<synthetic>":
        return OTHER
    kind = OTHER
    for block in blocks(record):
        what: Any = block.get("type")
        call, name = block.get("id"), block.get("name")
        if what in stream.TOOL_USE_TYPES and isinstance(call, str):
            kind = CALL
            known = facts.calls.setdefault(call, ClaudeToolCall(str(name), number, offset, side))
            known.results += facts.results.pop(call, 0)
        elif isinstance(block.get("tool_use_id"), str):
            kind = RESULT
            _result(facts, block)
        elif isinstance(what, str) and what in _KINDS:
            kind = _KINDS[what]
    # Its last block announces a call that is not there yet.
    return CUT if kind == TEXT and message.stop_reason == "tool_use" else kind


def _result(facts: ClaudeFacts, block: dict[str, Any]) -> None:
    call = block.get("tool_use_id")
    if not isinstance(call, str):
        return
    if call in facts.calls:
        facts.calls[call].results += 1
    else:
        facts.results[call] = facts.results.get(call, 0) + 1
    if block.get("is_error") and stream.content_text(block.get("content")).startswith(records.UNKNOWN):
        facts.unknown.append(call) if len(facts.unknown) < MOST else None


# --- The rules

_ANSWERED = frozenset({TEXT})
_TELLING = frozenset({QUEUED, TEXT, CUT, THINKING, CALL, RESULT, API_ERROR, INTERRUPTED})
_MODEL = frozenset({TEXT, CUT, THINKING, CALL})


class ClaudeFindings(NamedTuple):
    """The problems of a transcript, and how far it got."""

    problems: list[TranscriptProblem]
    dangling: list[str]  # call ids
    turns: int
    last_complete: int | None


def find_problems(facts: ClaudeFacts, native_id: str | None) -> ClaudeFindings:
    """All problems of one transcript; `native_id` is the id in its file name."""
    if not facts.any:
        return ClaudeFindings([TranscriptProblem("empty", "the transcript is empty", {})], [], 0, None)
    problems = _of_file(facts, native_id)
    if not facts.conversed:
        problems.append(TranscriptProblem("no_messages", "the transcript has no messages", {}))
    parents = [facts.names.get(above, -1) if above else -1 for above in facts.above]
    missing = [n for n, p in enumerate(parents) if p < 0 and facts.above[n] and n not in facts.logical]
    order, cut = logical_order(parents)
    if missing:
        text = f"{len(missing)} records follow a record that does not exist"
        problems.append(TranscriptProblem("missing_parent", text, {"records": len(missing)}))
    if cut:
        problems.append(
            TranscriptProblem("parent_cycle", "records follow each other in a cycle", {"circles": len(cut)})
        )
    problems += _of_calls(facts)
    if forks := _forks(facts, parents, order):
        text = f"the history forks at {forks} places; only one branch is used"
        problems.append(TranscriptProblem("forked_history", text, {"places": forks}))
    dangling = _dangling(facts)
    turns = _turns(facts, parents, order, {facts.calls[call].record for call in dangling})
    problems += turns.tail()
    return ClaudeFindings(problems, dangling, turns.count, turns.last_complete())


def _of_file(facts: ClaudeFacts, native_id: str | None) -> list[TranscriptProblem]:
    bad_lines: dict[str, list[int]] = {}
    for code, line in facts.bad:
        bad_lines.setdefault(code, []).append(line + 1)
    torn = not facts.ended and jsonl.TORN not in bad_lines and jsonl.NULS not in bad_lines
    texts = {
        jsonl.TORN: "the last record is cut off",
        jsonl.BAD: "some lines are not records",
        jsonl.NULS: "the file ends in NUL bytes",
        jsonl.GLUED: "some lines hold more than one record",
    }
    problems = [
        TranscriptProblem(code, texts.get(code, code), {"lines": lines}) for code, lines in bad_lines.items()
    ]
    if torn:
        said_of = "the last line has no newline; an older CLI would glue its next record to it"
        problems.append(TranscriptProblem(jsonl.TORN, said_of, {}))
    others = [id for id in facts.sessions if id != native_id]
    if native_id is None:
        others = others[1:]
    if others:
        problems.append(
            TranscriptProblem(
                "session_id_mismatch", "records have the id of another session", {"ids": others[:10]}
            )
        )
    if facts.doubled:
        problems.append(
            TranscriptProblem(
                "duplicate_record", "records appear more than once", {"uuids": facts.doubled[:10]}
            )
        )
    return problems


def _of_calls(facts: ClaudeFacts) -> list[TranscriptProblem]:
    problems = []
    if dangling := _dangling(facts):
        text = "calls have no result, so their outcome is unknown"
        problems.append(TranscriptProblem("dangling_call", text, {"calls": dangling[:MOST]}))
    if orphans := list(facts.results):
        text = "results have no call"
        problems.append(TranscriptProblem("orphan_result", text, {"calls": orphans[:MOST]}))
    if doubled := [call for call, known in facts.calls.items() if known.results > 1]:
        text = "calls have more than one result, as if two processes wrote the file"
        problems.append(TranscriptProblem("duplicate_result", text, {"calls": doubled[:MOST]}))
    if facts.unknown:
        text = "an earlier resume closed calls whose outcome is unknown"
        problems.append(TranscriptProblem("unknown_outcome", text, {"calls": facts.unknown}))
    return problems


def _dangling(facts: ClaudeFacts) -> list[str]:
    """Calls without a result; a subagent's calls only if the call that started it has one."""
    left = [call for call, known in facts.calls.items() if not known.results]
    main = [call for call in left if not facts.calls[call].side]
    return main if any(facts.calls[call].name in HELPERS for call in main) else left


def _forks(facts: ClaudeFacts, parents: list[int], order: Any) -> int:
    """At how many places the history forks.

    A step is a prompt, or a message of the model with all its blocks and results. Everything written in
    between belongs to the step before it.
    """
    steps = [0] * len(parents)
    spoke = [-1] * len(parents)  # the block of the step that a record follows; -1: none
    goes_on: dict[int, int] = {}  # step -> the step that follows
    followed: set[int] = set()  # blocks that are followed by a block of the same message
    prompts: list[int] = []
    forked: set[int] = set()
    for n in order:
        parent, kind = parents[n], facts.kinds[n]
        if n in facts.sides:
            continue
        before = steps[parent] if parent >= 0 else 0
        step = before
        if kind == PROMPT:
            step = -n - 1
            prompts.append(n)
        elif facts.messages[n]:
            step = facts.messages[n] or 1
            spoke[n] = n
            if parent >= 0 and step == before and spoke[parent] == parent:
                followed.add(parent)
        elif kind != RESULT and parent >= 0:
            spoke[n] = spoke[parent]
        steps[n] = step
        if step != before and before and goes_on.setdefault(before, step) != step:
            forked.add(before)
    # A resume by 2.1.197 and before attaches the next prompt to the block before a call without a result.
    for n in prompts:
        if parents[n] >= 0 and spoke[parents[n]] in followed:
            forked.add(steps[parents[n]])
    return len(forked)


class ClaudeTurns:
    """The state of each turn."""

    def __init__(self) -> None:
        self.last: list[int] = [OTHER]  # by turn from 1: the role of its last record; 0: before any turn
        self.did: list[bool] = [False]
        self.open: set[int] = set()

    @property
    def count(self) -> int:
        """How many turns there are."""
        return len(self.last) - 1

    def last_complete(self) -> int | None:
        """The last turn that ended with an answer and no open call."""
        for turn in range(self.count, 0, -1):
            if self.last[turn] in _ANSWERED and turn not in self.open:
                return turn
        return None

    def tail(self) -> list[TranscriptProblem]:
        """How the last turn ended, if not with an answer."""
        turn = self.count
        last = self.last[turn]
        if last == API_ERROR:
            return [TranscriptProblem("ended_in_api_error", "the last message is an API error", {})]
        if last == INTERRUPTED:
            return [TranscriptProblem("interrupted_on_purpose", "the user interrupted the last turn", {})]
        if last in _ANSWERED or turn in self.open or (turn == 0 and last == OTHER):
            return []
        if not self.did[turn] and last != RESULT:
            return [TranscriptProblem("no_reply", "the last prompt has no reply", {})]
        return [TranscriptProblem("turn_unfinished", "the last turn has no recorded end", {})]


def _turns(facts: ClaudeFacts, parents: list[int], order: Any, dangling: set[int]) -> ClaudeTurns:
    """By ancestry: a record belongs to its parent's turn, else to the turn of the record before."""
    turns = ClaudeTurns()
    of = [0] * len(parents)
    now = 0
    for n in order:
        kind = facts.kinds[n]
        if n in facts.sides:
            of[n] = of[parents[n]] if parents[n] >= 0 else now
        elif kind == PROMPT:
            turns.last.append(OTHER)
            turns.did.append(False)
            of[n] = turns.count
        else:
            of[n] = of[parents[n]] if parents[n] >= 0 else now
            if kind in _TELLING:
                turns.last[of[n]] = kind
            if kind in _MODEL:
                turns.did[of[n]] = True
        if n in dangling:
            turns.open.add(of[n])
        now = of[n]
    return turns
