"""kimi-cli's two files: `wire.jsonl`, what happened; `context.jsonl`, what the model will be given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast import timestamps
from holdfast.agents.kimi import records as rec
from holdfast.agents.kimi.records import KimiConversation, inner
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl as wire
from holdfast.transcripts.jsonl import GLUED, JsonlLine
from holdfast.transcripts.turns import ABORTED, COMPLETE

WIRE_STARTS = (b'{"timestamp":', b'{"type":')
CONTEXT_STARTS = (b'{"role":',)

_QUIET = frozenset(
    {
        "StepBegin",
        "CompactionBegin",
        "HookTriggered",
        "HookResolved",
        "HookRequest",
        "MCPLoadingBegin",
        "MCPLoadingEnd",
        "StatusUpdate",
        "SubagentEvent",
        "ApprovalRequest",
        "ApprovalResponse",
        "ApprovalRequestResolved",
        "QuestionRequest",
        "ToolCallRequest",
    }
)


class KimiCliWire:
    """What happened, record by record."""

    def __init__(self, native_id: str):
        self.story = KimiConversation(native_id)
        self.has_header = False
        self.calls: set[str] = set()  # of the last turn, as far as the context was not compacted since
        self.compacted = False  # in the last turn

    def take(self, line: JsonlLine) -> list[NewEvent]:
        """The events of a line."""
        record = line.value
        if record is None:
            self.story.records += 1
            return [self.story.unreadable(line)]
        envelope = inner(record, "message")
        kind = wire.word(envelope, "type")
        if line.problem == GLUED:
            if not kind and wire.word(record, "type") != "metadata":
                return []  # a piece of a torn record, not one of its own
            self.story.note(GLUED, line)
        self.story.records += 1
        if wire.word(record, "type") == "metadata":
            self.has_header = True
            return []
        at = timestamps.of_seconds(record.get("timestamp"))
        if kind in _QUIET:
            return []
        return self._told(kind, inner(envelope, "payload"), record, at, line)

    def end(self) -> list[NewEvent]:
        """What is still open ends here."""
        return self.story.turns.close()

    def _told(
        self, kind: str, payload: dict[str, Any], record: dict[str, Any], at: str | None, line: JsonlLine
    ) -> list[NewEvent]:
        name, turn = f"byte:{line.offset}", self.story.turns.now
        if kind in ("TurnBegin", "SteerInput"):
            begun = self._begin() if kind == "TurnBegin" else []
            said = rec.text(payload.get("user_input"))
            return [*begun, self.story.event("user", {"text": said}, at, name)]
        if kind == "ContentPart":
            return self.story.said(payload, at, name)
        if kind == "ToolCall":
            function, id = inner(payload, "function"), wire.word(payload, "id")
            self.calls.add(id)
            given = rec.arguments(function.get("arguments"))
            return [self.story.call(id, wire.word(function, "name"), given, at, line)]
        if kind == "ToolResult":
            value = inner(payload, "return_value") or inner(payload, "result")
            outcome = "error" if value.get("is_error") is True else "ok"
            output = rec.text(value.get("output")) or wire.word(value, "message")
            return [self.story.result(wire.word(payload, "tool_call_id"), outcome, output, at, line)]
        if kind == "TurnEnd":
            turn.ended = turn.ended or COMPLETE
            return []
        event = self._note(kind, payload, record)
        return [self.story.event(event.kind, event.body, at, name)]

    def _begin(self) -> list[NewEvent]:
        self.calls, self.compacted = set(), False
        return self.story.turns.prompt()

    def _note(self, kind: str, payload: dict[str, Any], record: dict[str, Any]) -> NewEvent:
        if kind == "StepInterrupted":
            self.story.turns.now.ended = ABORTED
            return wire.notice_event("interrupted", "the step was interrupted")
        if kind == "CompactionEnd":
            self.calls, self.compacted = set(), True
            return wire.notice_event("compaction", "the conversation was compacted")
        if kind == "StepRetry":
            return wire.error("retry", wire.word(payload, "error_type"), attempt=payload.get("next_attempt"))
        if kind == "PlanDisplay":
            return wire.notice_event("plan", wire.word(payload, "content"))
        if kind == "Notification":
            said = [wire.word(payload, "title"), wire.word(payload, "body")]
            return wire.notice_event("notification", "\n".join(filter(None, said)))
        return wire.unknown(record)


class KimiCliContext(msgspec.Struct):
    """What the model will be given, as far as it is compared with what happened."""

    calls: set[str] = set()
    last: str = ""  # the role of the last message

    def forgets(self, happened: KimiCliWire) -> list[str] | None:
        """The calls that the model will know nothing of; None if it will know all that was done."""
        lost = sorted(happened.calls - self.calls)
        turn = happened.story.turns.now
        untold = turn.did and turn.number > 0 and self.last in ("user", "") and not happened.compacted
        return lost if lost or untold else None


class KimiCliMessages:
    """The context folded into events, for sessions from before there was a wire file."""

    def __init__(self, native_id: str):
        self.story = KimiConversation(native_id)
        self.context = KimiCliContext()

    def take(self, line: JsonlLine) -> list[NewEvent]:
        """The events of a line."""
        record = line.value
        self.story.records += 1
        if record is None:
            return [self.story.unreadable(line)]
        role, name = wire.word(record, "role"), f"byte:{line.offset}"
        if line.problem == GLUED:
            if not role:
                return []
            self.story.note(GLUED, line)
        if role.startswith("_"):
            return []
        self.context.last = role
        if role == "assistant":
            return self._assistant(record, line)
        said = rec.text(record.get("content"))
        if role == "tool":
            return [self.story.result(wire.word(record, "tool_call_id"), "ok", said, None, line)]
        if role == "user" and not said.startswith("<system"):
            return [*self.story.turns.prompt(), self.story.event("user", {"text": said}, None, name)]
        if role == "user":
            return [self.story.event("notice", {"text": said, "code": "synthetic"}, None, name)]
        told = wire.unknown(record)
        return [self.story.event(told.kind, told.body, None, name)]

    def end(self) -> list[NewEvent]:
        """What is still open ends here; nothing in this file says that a turn ended but its last answer."""
        turn = self.story.turns.now
        if turn.said and not turn.open and self.context.last == "assistant":
            turn.ended = COMPLETE
        return self.story.turns.close()

    def _assistant(self, record: dict[str, Any], line: JsonlLine) -> list[NewEvent]:
        content, events = record.get("content"), []
        parts: Iterable[Any] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else rec.items(content)
        )
        for number, part in enumerate(parts):
            if isinstance(part, dict):
                events += self.story.said(part, None, f"byte:{line.offset}:{number}")
        for call in rec.items(record.get("tool_calls")):
            function = inner(call, "function")
            id = wire.word(call, "id") if isinstance(call, dict) else ""
            self.context.calls.add(id)
            given = rec.arguments(function.get("arguments"))
            events.append(self.story.call(id, wire.word(function, "name"), given, None, line))
        return events
