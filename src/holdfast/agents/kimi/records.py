"""What do the records of both products have in common? Content, calls, unreadable lines."""

from __future__ import annotations

from typing import Any

from holdfast.agents.acp import content
from holdfast.model.event import NewEvent, Origin
from holdfast.model.json_codec import decode
from holdfast.transcripts import jsonl
from holdfast.transcripts.jsonl import JsonlLine, notice
from holdfast.transcripts.turns import TurnTracker

AGENT = "kimi"
SHOWN = 20  # how many lines are listed as evidence of a problem
TEXT_PARTS = {"text": ("assistant", "text"), "think": ("thinking", "think")}


def items(value: Any) -> list[Any]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def inner(record: Any, key: str) -> dict[str, Any]:
    """A field that should be an object; empty for any other type."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, dict) else {}


def text(value: Any) -> str:
    """A message's content as text: a string, or parts, where other parts are named by type."""
    if isinstance(value, str):
        return value
    return "\n".join(line for part in items(value) if (line := part_text(part)))


def part_text(part: Any) -> str:
    """One part of a content as text."""
    if isinstance(part, dict) and isinstance(kind := part.get("type"), str) and kind.endswith("_url"):
        return f"[{kind.removesuffix('_url')}]"
    return content.block_text(part)


def arguments(value: Any) -> Any:
    """A call's input, which may be JSON in a string."""
    if not isinstance(value, str):
        return {} if value is None else value
    try:
        decoded = decode(value)
    except (ValueError, RecursionError):
        decoded = None
    parsed = jsonl.parse(value.encode("utf-8", "surrogatepass")) if isinstance(decoded, dict) else decoded
    return parsed if isinstance(parsed, dict) else {"arguments": value}


class KimiConversation:
    """The events, turns and damaged lines of one file."""

    def __init__(self, native_id: str):
        self.turns = TurnTracker()
        self.odd: dict[str, list[int]] = {}  # problem code -> line numbers, up to a limit
        self.counts: dict[str, int] = {}
        self.records = 0
        self._native_id = native_id

    def note(self, code: str, line: JsonlLine) -> None:
        """Record a problem of a line."""
        self.counts[code] = self.counts.get(code, 0) + 1
        numbers = self.odd.setdefault(code, [])
        if len(numbers) < SHOWN:
            numbers.append(line.number)

    def unreadable(self, line: JsonlLine) -> NewEvent:
        """The notice for a line that is not a record."""
        self.note(line.problem or "bad_line", line)
        return notice(line, AGENT, self._native_id)

    def event(self, kind: str, body: dict[str, Any], at: str | None, record_id: str) -> NewEvent:
        """An event that shares no id with the stream."""
        return NewEvent(kind, body, at, origin=jsonl.origin(AGENT, self._native_id, record_id))

    def on_part(self, part: dict[str, Any], at: str | None, record_id: str) -> list[NewEvent]:
        """The events of a part of the model's message."""
        known = TEXT_PARTS.get(jsonl.text_field(part, "type"))
        if known is None:
            named = part_text(part)
            event = jsonl.notice_event("attachment", named) if named else jsonl.unknown(part)
            return [self.event(event.kind, event.body, at, record_id)]
        kind, key = known
        text = jsonl.text_field(part, key)
        if not text:
            return []
        self.turns.now.acted = True
        if kind == "assistant":
            self.turns.add_text()
        return [self.event(kind, {"text": text}, at, record_id)]

    def call(self, agent_id: str, name: str, arguments: Any, at: str | None, line: JsonlLine) -> NewEvent:
        """A call begins."""
        id, name = content.call_id(agent_id), name or "tool"
        self.turns.call(id, name, arguments)
        body = {"call": id, "name": name, "input": arguments}
        return NewEvent("tool_progress", body, at, origin=self._origin("call", id, line))

    def result(self, agent_id: str, outcome: str, output: str, at: str | None, line: JsonlLine) -> NewEvent:
        """A call ends."""
        id = content.call_id(agent_id)
        call = self.turns.result(id) or self.turns.late_result(id)
        if call is None:
            self.note("orphan_result", line)
        body = {"call": id, "name": call["name"] if call else "tool", "outcome": outcome, "output": output}
        return NewEvent("tool_summary", body, at, origin=self._origin("result", id, line))

    def _origin(self, kind: str, id: str, line: JsonlLine) -> Origin | None:
        """The same origin as the live driver's; an id that may be a counter is valid for its line only."""
        origins = content.AcpOrigins(AGENT, f"byte:{line.offset}")
        origins.native_id = self._native_id
        return origins.of(kind, id)
