"""What do kimi-cli's files hold? `wire.jsonl`: what happened; `context.jsonl`: what the model will get."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast import timestamps
from holdfast.agents.kimi import records
from holdfast.agents.kimi.records import KimiConversation, inner
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl
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
    """Reads what happened, record by record."""

    def __init__(self, native_id: str):
        self.conversation = KimiConversation(native_id)
        self.has_header = False
        self.calls: set[str] = set()  # of the last turn, since the last compaction
        self.compacted = False  # in the last turn

    def on_line(self, line: JsonlLine) -> list[NewEvent]:
        """The events of a line."""
        record = line.value
        if record is None:
            self.conversation.records += 1
            return [self.conversation.unreadable(line)]
        envelope = inner(record, "message")
        kind = jsonl.text_field(envelope, "type")
        if line.problem == GLUED:
            if not kind and jsonl.text_field(record, "type") != "metadata":
                return []  # a piece of a torn record, not a record
            self.conversation.note(GLUED, line)
        self.conversation.records += 1
        if jsonl.text_field(record, "type") == "metadata":
            self.has_header = True
            return []
        at = timestamps.of_seconds(record.get("timestamp"))
        if kind in _QUIET:
            return []
        return self._on_record(kind, inner(envelope, "payload"), record, at, line)

    def end(self) -> list[NewEvent]:
        """End what is still open."""
        return self.conversation.turns.close()

    def _on_record(
        self, kind: str, payload: dict[str, Any], record: dict[str, Any], at: str | None, line: JsonlLine
    ) -> list[NewEvent]:
        name, turn = f"byte:{line.offset}", self.conversation.turns.now
        if kind in ("TurnBegin", "SteerInput"):
            begun = self._begin() if kind == "TurnBegin" else []
            prompt = records.text(payload.get("user_input"))
            return [*begun, self.conversation.event("user", {"text": prompt}, at, name)]
        if kind == "ContentPart":
            return self.conversation.on_part(payload, at, name)
        if kind == "ToolCall":
            function, id = inner(payload, "function"), jsonl.text_field(payload, "id")
            self.calls.add(id)
            arguments = records.arguments(function.get("arguments"))
            return [self.conversation.call(id, jsonl.text_field(function, "name"), arguments, at, line)]
        if kind == "ToolResult":
            value = inner(payload, "return_value") or inner(payload, "result")
            outcome = "error" if value.get("is_error") is True else "ok"
            output = records.text(value.get("output")) or jsonl.text_field(value, "message")
            return [
                self.conversation.result(jsonl.text_field(payload, "tool_call_id"), outcome, output, at, line)
            ]
        if kind == "TurnEnd":
            turn.ended = turn.ended or COMPLETE
            return []
        event = self._note(kind, payload, record)
        return [self.conversation.event(event.kind, event.body, at, name)]

    def _begin(self) -> list[NewEvent]:
        self.calls, self.compacted = set(), False
        return self.conversation.turns.prompt()

    def _note(self, kind: str, payload: dict[str, Any], record: dict[str, Any]) -> NewEvent:
        if kind == "StepInterrupted":
            self.conversation.turns.now.ended = ABORTED
            return jsonl.notice_event("interrupted", "the step was interrupted")
        if kind == "CompactionEnd":
            self.calls, self.compacted = set(), True
            return jsonl.notice_event("compaction", "the conversation was compacted")
        if kind == "StepRetry":
            return jsonl.error(
                "retry", jsonl.text_field(payload, "error_type"), attempt=payload.get("next_attempt")
            )
        if kind == "PlanDisplay":
            return jsonl.notice_event("plan", jsonl.text_field(payload, "content"))
        if kind == "Notification":
            texts = [jsonl.text_field(payload, "title"), jsonl.text_field(payload, "body")]
            return jsonl.notice_event("notification", "\n".join(filter(None, texts)))
        return jsonl.unknown(record)


class KimiCliContext(msgspec.Struct):
    """What the model will get, as far as it is compared with what happened."""

    calls: set[str] = set()
    last: str = ""  # the role of the last message

    def forgets(self, happened: KimiCliWire) -> list[str] | None:
        """The calls that the model will not know; None if it will know everything that was done."""
        lost = sorted(happened.calls - self.calls)
        turn = happened.conversation.turns.now
        untold = turn.acted and turn.number > 0 and self.last in ("user", "") and not happened.compacted
        return lost if lost or untold else None


class KimiCliMessages:
    """Reads events from the context, for sessions from before the wire file existed."""

    def __init__(self, native_id: str):
        self.conversation = KimiConversation(native_id)
        self.context = KimiCliContext()

    def on_line(self, line: JsonlLine) -> list[NewEvent]:
        """The events of a line."""
        record = line.value
        self.conversation.records += 1
        if record is None:
            return [self.conversation.unreadable(line)]
        role, name = jsonl.text_field(record, "role"), f"byte:{line.offset}"
        if line.problem == GLUED:
            if not role:
                return []
            self.conversation.note(GLUED, line)
        if role.startswith("_"):
            return []
        self.context.last = role
        if role == "assistant":
            return self._assistant(record, line)
        text = records.text(record.get("content"))
        if role == "tool":
            return [
                self.conversation.result(jsonl.text_field(record, "tool_call_id"), "ok", text, None, line)
            ]
        if role == "user" and not text.startswith("<system"):
            return [
                *self.conversation.turns.prompt(),
                self.conversation.event("user", {"text": text}, None, name),
            ]
        if role == "user":
            return [self.conversation.event("notice", {"text": text, "code": "synthetic"}, None, name)]
        notice = jsonl.unknown(record)
        return [self.conversation.event(notice.kind, notice.body, None, name)]

    def end(self) -> list[NewEvent]:
        """End what is still open; in this file only a last answer shows that a turn ended."""
        turn = self.conversation.turns.now
        if turn.has_text and not turn.open and self.context.last == "assistant":
            turn.ended = COMPLETE
        return self.conversation.turns.close()

    def _assistant(self, record: dict[str, Any], line: JsonlLine) -> list[NewEvent]:
        content, events = record.get("content"), []
        parts: Iterable[Any] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else records.items(content)
        )
        for number, part in enumerate(parts):
            if isinstance(part, dict):
                events += self.conversation.on_part(part, None, f"byte:{line.offset}:{number}")
        for call in records.items(record.get("tool_calls")):
            function = inner(call, "function")
            id = jsonl.text_field(call, "id") if isinstance(call, dict) else ""
            self.context.calls.add(id)
            arguments = records.arguments(function.get("arguments"))
            events.append(
                self.conversation.call(id, jsonl.text_field(function, "name"), arguments, None, line)
            )
        return events
