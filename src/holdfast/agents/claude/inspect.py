"""Whether a transcript is sound, from its facts: the rules before a resume, and nothing else."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from holdfast.agents.claude import records, stream
from holdfast.agents.claude.events import HELPERS
from holdfast.agents.claude.records import ClaudeRecord, blocks
from holdfast.agents.claude.transcript import TranscriptPiece, logical
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import TranscriptProblem

# What a record is to its turn.
OTHER, PROMPT, QUEUED, TEXT, CUT, THINKING, CALL, RESULT, API_ERROR, INTERRUPTED = range(10)

_KINDS = {"text": TEXT, "thinking": THINKING, "redacted_thinking": THINKING}
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
MOST = 100  # of a kind of problem that are named


class ClaudeToolCall(msgspec.Struct, gc=False):
    """One call of a tool."""

    name: str
    record: int  # its number
    offset: int
    side: bool  # a subagent made it
    results: int = 0


class ClaudeFacts(msgspec.Struct):
    """Of all records that are in a chain, by their number as they are written."""

    names: dict[int, int] = {}  # by a uuid's hash
    above: array[int] = msgspec.field(default_factory=lambda: array("q"))  # the parent's hash; 0: none
    logical: set[int] = set()  # those whose parent is only a logical one
    kinds: bytearray = msgspec.field(default_factory=bytearray)
    messages: array[int] = msgspec.field(default_factory=lambda: array("q"))  # a message id's hash; 0: none
    sides: set[int] = set()  # records of subagents
    calls: dict[str, ClaudeToolCall] = {}
    results: dict[str, int] = {}  # without a call so far: how many
    unknown: list[str] = []  # calls that a resume closed
    sessions: dict[str, int] = {}  # the ids that records have
    doubled: list[str] = []  # uuids
    bad: list[tuple[str, int]] = []  # what is wrong with which line
    conversed: bool = False  # there is a message
    ended: bool = True  # the file ends in a newline
    any: bool = False  # it has a byte


def gather(pieces: Iterable[TranscriptPiece]) -> ClaudeFacts:
    """Read them all."""
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
    """Whether nothing but NULs stands at its end."""
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
        found = records.queued(record)
        return QUEUED if found is not None and found[0] == "prompt" else OTHER
    if record.type != "user":
        return OTHER
    spoken = records.of_user(record)
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
        if what in _CALLS and isinstance(call, str):
            kind = CALL
            known = facts.calls.setdefault(call, ClaudeToolCall(str(name), number, offset, side))
            known.results += facts.results.pop(call, 0)
        elif isinstance(block.get("tool_use_id"), str):
            kind = RESULT
            _result(facts, block)
        elif isinstance(what, str) and what in _KINDS:
            kind = _KINDS[what]
    # Its last block says that a call follows, which is not there yet.
    return CUT if kind == TEXT and message.stop_reason == "tool_use" else kind


def _result(facts: ClaudeFacts, block: dict[str, Any]) -> None:
    call = block.get("tool_use_id")
    if not isinstance(call, str):
        return
    if call in facts.calls:
        facts.calls[call].results += 1
    else:
        facts.results[call] = facts.results.get(call, 0) + 1
    if block.get("is_error") and stream.joined(block.get("content")).startswith(records.UNKNOWN):
        facts.unknown.append(call) if len(facts.unknown) < MOST else None


# --- Whether a transcript is sound, from its facts: the rules before a resume, and nothing else.

# With these a resume loses nothing and repeats nothing: the model was told of them, or has nothing to know.
HARMLESS = frozenset({"ended_in_api_error", "interrupted_on_purpose", "unknown_outcome"})

_ANSWERED = frozenset({TEXT})
_TELLING = frozenset({QUEUED, TEXT, CUT, THINKING, CALL, RESULT, API_ERROR, INTERRUPTED})
_MODEL = frozenset({TEXT, CUT, THINKING, CALL})


class ClaudeFindings(NamedTuple):
    """What is wrong, and how far it has come."""

    problems: list[TranscriptProblem]
    dangling: list[str]  # calls
    turns: int
    last_complete: int | None


def is_sound(problems: list[TranscriptProblem]) -> bool:
    """Whether a resume would lose or repeat nothing, as far as the store tells."""
    return all(problem.code in HARMLESS for problem in problems)


def judge(facts: ClaudeFacts, native_id: str | None) -> ClaudeFindings:
    """All problems of one transcript; `native_id` is the id that its file has for a name."""
    if not facts.any:
        return ClaudeFindings([TranscriptProblem("empty", "the transcript is empty", {})], [], 0, None)
    problems = _of_file(facts, native_id)
    if not facts.conversed:
        problems.append(TranscriptProblem("no_messages", "the transcript has no message", {}))
    parents = [facts.names.get(above, -1) if above else -1 for above in facts.above]
    missing = [n for n, p in enumerate(parents) if p < 0 and facts.above[n] and n not in facts.logical]
    order, cut = logical(parents)
    if missing:
        said = f"{len(missing)} records follow one that is not there"
        problems.append(TranscriptProblem("missing_parent", said, {"records": len(missing)}))
    if cut:
        problems.append(
            TranscriptProblem("parent_cycle", "records follow each other in a circle", {"circles": len(cut)})
        )
    problems += _of_calls(facts)
    if forks := _forks(facts, parents, order):
        said = f"the history goes on in more than one way at {forks} places; only one of them is remembered"
        problems.append(TranscriptProblem("forked_history", said, {"places": forks}))
    dangling = _dangling(facts)
    turns = _turns(facts, parents, order, {facts.calls[call].record for call in dangling})
    problems += turns.tail()
    return ClaudeFindings(problems, dangling, turns.count, turns.last_complete())


def _of_file(facts: ClaudeFacts, native_id: str | None) -> list[TranscriptProblem]:
    found: dict[str, list[int]] = {}
    for code, line in facts.bad:
        found.setdefault(code, []).append(line + 1)
    torn = not facts.ended and jsonl.TORN not in found and jsonl.NULS not in found
    said = {
        jsonl.TORN: "the last record is cut off",
        jsonl.BAD: "lines that are no record",
        jsonl.NULS: "it ends in NUL bytes",
        jsonl.GLUED: "lines that hold more than one record",
    }
    problems = [
        TranscriptProblem(code, said.get(code, code), {"lines": lines}) for code, lines in found.items()
    ]
    if torn:
        said_of = "its last line has no end, and an older CLI would glue its next record to it"
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
                "duplicate_record", "records are there more than once", {"uuids": facts.doubled[:10]}
            )
        )
    return problems


def _of_calls(facts: ClaudeFacts) -> list[TranscriptProblem]:
    problems = []
    if dangling := _dangling(facts):
        said = "calls have no result; what became of them is unknown"
        problems.append(TranscriptProblem("dangling_call", said, {"calls": dangling[:MOST]}))
    if orphans := list(facts.results):
        said = "results of calls that are not there"
        problems.append(TranscriptProblem("orphan_result", said, {"calls": orphans[:MOST]}))
    if doubled := [call for call, known in facts.calls.items() if known.results > 1]:
        said = "calls have more than one result, as when two processes wrote"
        problems.append(TranscriptProblem("duplicate_result", said, {"calls": doubled[:MOST]}))
    if facts.unknown:
        said = "an earlier resume closed calls whose outcome is unknown"
        problems.append(TranscriptProblem("unknown_outcome", said, {"calls": facts.unknown}))
    return problems


def _dangling(facts: ClaudeFacts) -> list[str]:
    """Calls without a result; those of a subagent only if not the subagent itself is one of them."""
    left = [call for call, known in facts.calls.items() if not known.results]
    main = [call for call in left if not facts.calls[call].side]
    return main if any(facts.calls[call].name in HELPERS for call in main) else left


def _forks(facts: ClaudeFacts, parents: list[int], order: Any) -> int:
    """At how many places the history goes on in two ways.

    A step is a prompt, or a message of the model with all its blocks and results. What else is written
    in between belongs to the step before it.
    """
    steps = [0] * len(parents)
    spoke = [-1] * len(parents)  # the block of the step that a record hangs off; -1: something else
    goes_on: dict[int, int] = {}  # by step: how it goes on
    followed: set[int] = set()  # blocks behind which one of the same message stands
    prompts: list[int] = []
    places: set[int] = set()
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
            places.add(before)
    # A resume by 2.1.197 and before hangs the next prompt off the block before a call that has no result.
    for n in prompts:
        if parents[n] >= 0 and spoke[parents[n]] in followed:
            places.add(steps[parents[n]])
    return len(places)


class ClaudeTurns:
    """What became of each prompt."""

    def __init__(self) -> None:
        self.last: list[int] = [OTHER]  # by turn, from 1: the last that was said or done; 0: before any
        self.did: list[bool] = [False]
        self.open: set[int] = set()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.last) - 1

    def last_complete(self) -> int | None:
        """The last that ended with an answer and no open call."""
        for turn in range(self.count, 0, -1):
            if self.last[turn] in _ANSWERED and turn not in self.open:
                return turn
        return None

    def tail(self) -> list[TranscriptProblem]:
        """How the last one ended, if not with an answer."""
        turn = self.count
        last = self.last[turn]
        if last == API_ERROR:
            return [TranscriptProblem("ended_in_api_error", "the last thing said is an error of the API", {})]
        if last == INTERRUPTED:
            return [
                TranscriptProblem("interrupted_on_purpose", "the last turn was interrupted on purpose", {})
            ]
        if last in _ANSWERED or turn in self.open or (turn == 0 and last == OTHER):
            return []
        if not self.did[turn] and last != RESULT:
            return [TranscriptProblem("no_reply", "the last prompt has no reply", {})]
        return [TranscriptProblem("turn_unfinished", "the last turn has no end", {})]


def _turns(facts: ClaudeFacts, parents: list[int], order: Any, dangling: set[int]) -> ClaudeTurns:
    """By ancestry: a record is of its parent's turn, and without one of that of the record before."""
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
