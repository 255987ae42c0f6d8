"""The small facts of a transcript by which it is judged: numbers and hashes, so that a long one fits."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.drive.claude import parts
from holdfast.history import jsonl
from holdfast.history.claude import voice
from holdfast.history.claude.pieces import Piece
from holdfast.history.claude.record import Record, blocks

# What a record is to its turn.
OTHER, PROMPT, QUEUED, TEXT, CUT, THINKING, CALL, RESULT, API_ERROR, INTERRUPTED = range(10)

_KINDS = {"text": TEXT, "thinking": THINKING, "redacted_thinking": THINKING}
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
MOST = 100  # of a kind of problem that are named


class Call(msgspec.Struct, gc=False):
    """One call of a tool."""

    name: str
    record: int  # its number
    offset: int
    side: bool  # a subagent made it
    results: int = 0


class Facts(msgspec.Struct):
    """Of all records that are in a chain, by their number as they are written."""

    names: dict[int, int] = {}  # by a uuid's hash
    above: array[int] = msgspec.field(default_factory=lambda: array("q"))  # the parent's hash; 0: none
    logical: set[int] = set()  # those whose parent is only a logical one
    kinds: bytearray = msgspec.field(default_factory=bytearray)
    messages: array[int] = msgspec.field(default_factory=lambda: array("q"))  # a message id's hash; 0: none
    sides: set[int] = set()  # records of subagents
    calls: dict[str, Call] = {}
    results: dict[str, int] = {}  # without a call so far: how many
    unknown: list[str] = []  # calls that a resume closed
    sessions: dict[str, int] = {}  # the ids that records have
    doubled: list[str] = []  # uuids
    bad: list[tuple[str, int]] = []  # what is wrong with which line
    conversed: bool = False  # there is a message
    ended: bool = True  # the file ends in a newline
    any: bool = False  # it has a byte


def gather(pieces: Iterable[Piece]) -> Facts:
    """Read them all."""
    facts = Facts()
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


def last_is_nul(facts: Facts) -> bool:
    """Whether nothing but NULs stands at its end."""
    return bool(facts.bad) and facts.bad[-1][0] == jsonl.NULS


def _take(facts: Facts, record: Record, offset: int) -> None:
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


def _kind(facts: Facts, record: Record, number: int, offset: int, side: bool) -> int:
    if record.type == "assistant":
        return _of_model(facts, record, number, offset, side)
    if record.type == "attachment":
        found = voice.queued(record)
        return QUEUED if found is not None and found[0] == "prompt" else OTHER
    if record.type != "user":
        return OTHER
    spoken = voice.of_user(record)
    if spoken == "results":
        for block in blocks(record):
            _result(facts, block)
        return RESULT
    if spoken == "interrupted":
        return INTERRUPTED
    content = record.message.content if record.message is not None else None
    return PROMPT if spoken == "prompt" and content else OTHER


def _of_model(facts: Facts, record: Record, number: int, offset: int, side: bool) -> int:
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
            known = facts.calls.setdefault(call, Call(str(name), number, offset, side))
            known.results += facts.results.pop(call, 0)
        elif isinstance(block.get("tool_use_id"), str):
            kind = RESULT
            _result(facts, block)
        elif isinstance(what, str) and what in _KINDS:
            kind = _KINDS[what]
    # Its last block says that a call follows, which is not there yet.
    return CUT if kind == TEXT and message.stop_reason == "tool_use" else kind


def _result(facts: Facts, block: dict[str, Any]) -> None:
    call = block.get("tool_use_id")
    if not isinstance(call, str):
        return
    if call in facts.calls:
        facts.calls[call].results += 1
    else:
        facts.results[call] = facts.results.get(call, 0) + 1
    if block.get("is_error") and parts.joined(block.get("content")).startswith(voice.UNKNOWN):
        facts.unknown.append(call) if len(facts.unknown) < MOST else None
