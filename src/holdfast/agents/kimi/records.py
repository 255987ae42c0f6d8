"""What the records of both products have in common: content, calls, odd lines."""

from __future__ import annotations

from typing import Any

from holdfast.agents.acp import content
from holdfast.agents.acp import content as naming
from holdfast.model.event import NewEvent, Origin
from holdfast.model.json_codec import decode
from holdfast.transcripts import jsonl as wire
from holdfast.transcripts.jsonl import JsonlLine, notice
from holdfast.transcripts.turns import TurnTracker

AGENT = "kimi"
SHOWN = 20  # lines that are named as evidence of one kind of problem
SAID = {"text": ("assistant", "text"), "think": ("thinking", "think")}


def items(value: Any) -> list[Any]:
    """A list; nothing else is one."""
    return value if isinstance(value, list) else []


def inner(record: Any, key: str) -> dict[str, Any]:
    """A field that should be an object; empty if it is anything else."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, dict) else {}


def text(value: Any) -> str:
    """A message's content as text: a string, or parts, of which those that are no text are named."""
    if isinstance(value, str):
        return value
    return "\n".join(said for part in items(value) if (said := part_text(part)))


def part_text(part: Any) -> str:
    """One part of a content."""
    if isinstance(part, dict) and isinstance(kind := part.get("type"), str) and kind.endswith("_url"):
        return f"[{kind.removesuffix('_url')}]"
    return content.block_text(part)


def arguments(value: Any) -> Any:
    """A call's input, which may be JSON in a string."""
    if not isinstance(value, str):
        return {} if value is None else value
    try:
        told = decode(value)
    except (ValueError, RecursionError):
        told = None
    parsed = wire.parse(value.encode("utf-8", "surrogatepass")) if isinstance(told, dict) else told
    return parsed if isinstance(parsed, dict) else {"arguments": value}


class KimiConversation:
    """The events of one file while it is read, its turns, and what is wrong with its lines."""

    def __init__(self, native_id: str):
        self.turns = TurnTracker()
        self.odd: dict[str, list[int]] = {}  # problem: the lines that have it, as far as they are kept
        self.counts: dict[str, int] = {}
        self.records = 0
        self._native_id = native_id

    def note(self, code: str, line: JsonlLine) -> None:
        """Keep that something is wrong with a line."""
        self.counts[code] = self.counts.get(code, 0) + 1
        shown = self.odd.setdefault(code, [])
        if len(shown) < SHOWN:
            shown.append(line.number)

    def unreadable(self, line: JsonlLine) -> NewEvent:
        """A line that is no record."""
        self.note(line.problem or "bad_line", line)
        return notice(line, AGENT, self._native_id)

    def event(self, kind: str, body: dict[str, Any], at: str | None, record_id: str) -> NewEvent:
        """An event of something that has no id in common with the stream."""
        return NewEvent(kind, body, at, origin=wire.origin(AGENT, self._native_id, record_id))

    def said(self, part: dict[str, Any], at: str | None, record_id: str) -> list[NewEvent]:
        """A part of what the model said."""
        known = SAID.get(wire.word(part, "type"))
        if known is None:
            named = part_text(part)
            event = wire.notice_event("attachment", named) if named else wire.unknown(part)
            return [self.event(event.kind, event.body, at, record_id)]
        kind, key = known
        said = wire.word(part, key)
        if not said:
            return []
        self.turns.now.did = True
        if kind == "assistant":
            self.turns.spoke()
        return [self.event(kind, {"text": said}, at, record_id)]

    def call(self, told: str, name: str, given: Any, at: str | None, line: JsonlLine) -> NewEvent:
        """A call begins."""
        id, name = naming.call_id(told), name or "tool"
        self.turns.call(id, name, given)
        body = {"call": id, "name": name, "input": given}
        return NewEvent("tool_progress", body, at, origin=self._origin("call", id, line))

    def result(self, told: str, outcome: str, output: str, at: str | None, line: JsonlLine) -> NewEvent:
        """A call ends."""
        id = naming.call_id(told)
        call = self.turns.result(id) or self.turns.late(id)
        if call is None:
            self.note("orphan_result", line)
        body = {"call": id, "name": call["name"] if call else "tool", "outcome": outcome, "output": output}
        return NewEvent("tool_summary", body, at, origin=self._origin("result", id, line))

    def _origin(self, kind: str, id: str, line: JsonlLine) -> Origin | None:
        """As the live driver names it; an id that may be a counter counts for its line only."""
        origins = naming.AcpOrigins(AGENT, f"byte:{line.offset}")
        origins.native_id = self._native_id
        return origins.of(kind, id)
