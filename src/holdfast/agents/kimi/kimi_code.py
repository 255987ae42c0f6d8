"""Which events does Kimi Code's `wire.jsonl` contain?"""

from __future__ import annotations

from collections import deque
from typing import Any

from holdfast import timestamps
from holdfast.agents.kimi import records
from holdfast.agents.kimi.records import KimiConversation, inner
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl
from holdfast.transcripts.jsonl import GLUED, JsonlLine
from holdfast.transcripts.turns import ABORTED, COMPLETE, FAILED

STARTS = (b'{"type":', b'{"message":', b'{"turnId":')

# Settings, counters and copies: nothing that was said or done (wire protocol 1.5).
_QUIET = frozenset(
    {
        "metadata",
        "agent.message.appended",
        "agent.turn.started",
        "agent.turn.ended",
        "config.update",
        "cron.add",
        "cron.cursor",
        "cron.delete",
        "forked",
        "full_compaction.begin",
        "full_compaction.cancel",
        "full_compaction.complete",
        "goal.clear",
        "goal.create",
        "goal.update",
        "interaction.request",
        "interaction.resolved",
        "interruptionReminder.recorded",
        "llm.request",
        "llm.tools_snapshot",
        "mcp.tools_discovered",
        "permission.record_approval_result",
        "permission.set_mode",
        "plan.revision",
        "plan_mode.cancel",
        "plan_mode.enter",
        "plan_mode.exit",
        "plugin.session_start",
        "profile.bind",
        "prompt.accepted",
        "prompt.completed",
        "runtime.set_binding",
        "staleGuard.cleared",
        "staleGuard.recorded",
        "swarm_mode.enter",
        "swarm_mode.exit",
        "task.started",
        "task.terminated",
        "task.waitDelivered",
        "token_counting.measured",
        "token_counting.rebased",
        "token_counting.truncated",
        "token_counting.turn_recorded",
        "tools.register_user_tool",
        "tools.reset_active_tools",
        "tools.set_active_tools",
        "tools.unregister_user_tool",
        "tools.update_store",
        "tower_mode.enter",
        "tower_mode.exit",
        "usage.record",
    }
)
_HUMAN = frozenset({"", "user", "skill_activation", "plugin_command"})  # origins of what a person asked for
_PENDING = 100  # how many prompts wait for their context message


class KimiCodeWire:
    """Reads one file line by line."""

    def __init__(self, native_id: str):
        self.conversation = KimiConversation(native_id)
        self.has_header = False
        self._turn_id: Any = None
        self._turn_ids: set[int] = set()
        self._cancelled = False
        self._prompts: deque[tuple[str, str]] = deque(maxlen=_PENDING)  # id and text, not yet in the context

    def on_line(self, line: JsonlLine) -> list[NewEvent]:
        """The events of a line."""
        record = line.value
        if record is None:
            self.conversation.records += 1
            return [self.conversation.unreadable(line)]
        kind = jsonl.text_field(record, "type")
        if line.problem == GLUED:
            if "time" not in record and kind != "metadata":
                return []  # a piece of a torn record, not a record
            self.conversation.note(GLUED, line)
        self.conversation.records += 1
        if self.conversation.records == 1:
            self.has_header = kind == "metadata"
        if kind in _QUIET:
            return []
        at = timestamps.of_millis(record.get("time"))
        if kind == "context.append_loop_event":
            return self._loop(inner(record, "event"), at, line)
        if kind in ("turn.prompt", "turn.steer"):
            return self._prompt(record, at, line, begins=kind == "turn.prompt")
        if kind == "context.append_message":
            return self._message(inner(record, "message"), at, line)
        if kind == "turn.ended":
            return self._ended(record, at, line)
        if kind == "turn.cancel":
            self._cancelled = record.get("target") != "queued"
            return []
        return [self._note(record, kind, at, line)]

    def end(self) -> list[NewEvent]:
        """End what is still open."""
        return self.conversation.turns.close()

    def _prompt(
        self, record: dict[str, Any], at: str | None, line: JsonlLine, begins: bool
    ) -> list[NewEvent]:
        text, origin = records.text(record.get("input")), jsonl.text_field(inner(record, "origin"), "kind")
        id = jsonl.text_field(record, "promptId")
        self._prompts.append((id, text))
        events = self._begin(record.get("turnId"), line) if begins else []
        name = f"prompt:{id}" if id and begins else f"byte:{line.offset}"
        if origin in _HUMAN:
            return [*events, self.conversation.event("user", {"text": text}, at, name)]
        return [*events, self.conversation.event("notice", {"text": text, "code": origin}, at, name)]

    def _begin(self, turn_id: Any, line: JsonlLine) -> list[NewEvent]:
        if type(turn_id) is int:
            if turn_id in self._turn_ids:
                self.conversation.note("forked_history", line)  # two writers each numbered their own turn
            self._turn_ids.add(turn_id)
        self._turn_id, self._cancelled = turn_id, False
        return self.conversation.turns.prompt()

    def _message(self, message: dict[str, Any], at: str | None, line: JsonlLine) -> list[NewEvent]:
        """A message for the model; most are already covered by other records."""
        role, origin = jsonl.text_field(message, "role"), jsonl.text_field(inner(message, "origin"), "kind")
        name = f"byte:{line.offset}"
        if role == "assistant":
            events = []
            for number, part in enumerate(records.items(message.get("content"))):
                if isinstance(part, dict):
                    events += self.conversation.on_part(part, at, f"{name}:{number}")
            for call in records.items(message.get("toolCalls")):
                if isinstance(call, dict):
                    arguments = records.arguments(call.get("arguments"))
                    events.append(
                        self.conversation.call(
                            jsonl.text_field(call, "id"), jsonl.text_field(call, "name"), arguments, at, line
                        )
                    )
            return events
        text = records.text(message.get("content"))
        if role == "tool":
            outcome = "error" if message.get("isError") is True else "ok"
            return [
                self.conversation.result(jsonl.text_field(message, "toolCallId"), outcome, text, at, line)
            ]
        if origin == "injection" or self._is_told(jsonl.text_field(message, "id"), text):
            return []
        if role == "user" and origin in _HUMAN:
            return [*self._begin(None, line), self.conversation.event("user", {"text": text}, at, name)]
        code = "compaction" if origin == "compaction_summary" else origin or role or "unknown_record"
        return [self.conversation.event("notice", {"text": text, "code": code}, at, name)]

    def _is_told(self, id: str, text: str) -> bool:
        for prompt in self._prompts:
            if (id and prompt[0] == id) or prompt[1] == text:
                self._prompts.remove(prompt)
                return True
        return False

    def _loop(self, event: dict[str, Any], at: str | None, line: JsonlLine) -> list[NewEvent]:
        kind, call = jsonl.text_field(event, "type"), jsonl.text_field(event, "toolCallId")
        if kind in ("step.begin", "step.end"):
            return []
        if kind == "content.part":
            uuid = jsonl.text_field(event, "uuid")
            return self.conversation.on_part(
                inner(event, "part"), at, f"part:{uuid}" if uuid else f"byte:{line.offset}"
            )
        if kind == "tool.call":
            args = event.get("args")
            return [
                self.conversation.call(
                    call, jsonl.text_field(event, "name"), {} if args is None else args, at, line
                )
            ]
        if kind == "tool.result":
            result = inner(event, "result")
            outcome = "ok"
            if result.get("isError") is True:
                outcome = "interrupted" if self._cancelled else "error"
            return [self.conversation.result(call, outcome, records.text(result.get("output")), at, line)]
        notice = jsonl.unknown(event)
        return [self.conversation.event(notice.kind, notice.body, at, f"byte:{line.offset}")]

    def _ended(self, record: dict[str, Any], at: str | None, line: JsonlLine) -> list[NewEvent]:
        if self._turn_id is not None and record.get("turnId") != self._turn_id:
            return []
        reason, turn = jsonl.text_field(record, "reason"), self.conversation.turns.now
        if reason == "completed":
            turn.ended = COMPLETE
            return []
        if reason == "cancelled":
            turn.ended = ABORTED
            body = {"text": "the turn was canceled", "code": "interrupted"}
            return [self.conversation.event("notice", body, at, f"byte:{line.offset}")]
        error = inner(record, "error")
        turn.ended, turn.reason = FAILED, jsonl.text_field(error, "message") or reason
        body = {"text": turn.reason, "code": "api_error", "name": jsonl.text_field(error, "code") or reason}
        return [self.conversation.event("error", body, at, f"byte:{line.offset}")]

    def _note(self, record: dict[str, Any], kind: str, at: str | None, line: JsonlLine) -> NewEvent:
        name = f"byte:{line.offset}"
        if kind == "context.apply_compaction":
            summary = record.get("summary")
            text = (
                records.text(summary.get("content")) if isinstance(summary, dict) else records.text(summary)
            )
            text = text or jsonl.text_field(record, "contextSummary")
            return self.conversation.event("notice", {"text": text, "code": "compaction"}, at, name)
        if kind == "context.undo":
            body = {"text": f"the user rolled back {record.get('count')} prompts", "code": "undo"}
            return self.conversation.event("notice", body, at, name)
        if kind == "context.clear":
            return self.conversation.event(
                "notice", {"text": "the context was cleared", "code": "clear"}, at, name
            )
        notice = jsonl.unknown(record)
        return self.conversation.event(notice.kind, notice.body, at, name)
