"""Kimi Code's `wire.jsonl` folded into events; values in, values out."""

from __future__ import annotations

from collections import deque
from typing import Any

from holdfast import timestamps
from holdfast.agents.kimi import records as rec
from holdfast.agents.kimi.records import KimiConversation, inner
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl as wire
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
_PENDING = 100  # prompts that are still to be met in the context


class KimiCodeWire:
    """One file, line by line."""

    def __init__(self, native_id: str):
        self.story = KimiConversation(native_id)
        self.has_header = False
        self._turn_id: Any = None
        self._turn_ids: set[int] = set()
        self._cancelled = False
        self._prompts: deque[tuple[str, str]] = deque(maxlen=_PENDING)  # id and text, not yet in the context

    def take(self, line: JsonlLine) -> list[NewEvent]:
        """The events of a line."""
        record = line.value
        if record is None:
            self.story.records += 1
            return [self.story.unreadable(line)]
        kind = wire.word(record, "type")
        if line.problem == GLUED:
            if "time" not in record and kind != "metadata":
                return []  # a piece of a torn record, not one of its own
            self.story.note(GLUED, line)
        self.story.records += 1
        if self.story.records == 1:
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
        """What is still open ends here."""
        return self.story.turns.close()

    def _prompt(
        self, record: dict[str, Any], at: str | None, line: JsonlLine, begins: bool
    ) -> list[NewEvent]:
        said, origin = rec.text(record.get("input")), wire.word(inner(record, "origin"), "kind")
        id = wire.word(record, "promptId")
        self._prompts.append((id, said))
        events = self._begin(record.get("turnId"), line) if begins else []
        name = f"prompt:{id}" if id and begins else f"byte:{line.offset}"
        if origin in _HUMAN:
            return [*events, self.story.event("user", {"text": said}, at, name)]
        return [*events, self.story.event("notice", {"text": said, "code": origin}, at, name)]

    def _begin(self, turn_id: Any, line: JsonlLine) -> list[NewEvent]:
        if type(turn_id) is int:
            if turn_id in self._turn_ids:
                self.story.note("forked_history", line)  # each of two writers numbered its own turn
            self._turn_ids.add(turn_id)
        self._turn_id, self._cancelled = turn_id, False
        return self.story.turns.prompt()

    def _message(self, message: dict[str, Any], at: str | None, line: JsonlLine) -> list[NewEvent]:
        """A message for the model: most were told by other records already."""
        role, origin = wire.word(message, "role"), wire.word(inner(message, "origin"), "kind")
        name = f"byte:{line.offset}"
        if role == "assistant":
            events = []
            for number, part in enumerate(rec.items(message.get("content"))):
                if isinstance(part, dict):
                    events += self.story.said(part, at, f"{name}:{number}")
            for call in rec.items(message.get("toolCalls")):
                if isinstance(call, dict):
                    given = rec.arguments(call.get("arguments"))
                    events.append(
                        self.story.call(wire.word(call, "id"), wire.word(call, "name"), given, at, line)
                    )
            return events
        said = rec.text(message.get("content"))
        if role == "tool":
            outcome = "error" if message.get("isError") is True else "ok"
            return [self.story.result(wire.word(message, "toolCallId"), outcome, said, at, line)]
        if origin == "injection" or self._is_told(wire.word(message, "id"), said):
            return []
        if role == "user" and origin in _HUMAN:
            return [*self._begin(None, line), self.story.event("user", {"text": said}, at, name)]
        code = "compaction" if origin == "compaction_summary" else origin or role or "unknown_record"
        return [self.story.event("notice", {"text": said, "code": code}, at, name)]

    def _is_told(self, id: str, said: str) -> bool:
        for prompt in self._prompts:
            if (id and prompt[0] == id) or prompt[1] == said:
                self._prompts.remove(prompt)
                return True
        return False

    def _loop(self, event: dict[str, Any], at: str | None, line: JsonlLine) -> list[NewEvent]:
        kind, call = wire.word(event, "type"), wire.word(event, "toolCallId")
        if kind in ("step.begin", "step.end"):
            return []
        if kind == "content.part":
            uuid = wire.word(event, "uuid")
            return self.story.said(
                inner(event, "part"), at, f"part:{uuid}" if uuid else f"byte:{line.offset}"
            )
        if kind == "tool.call":
            args = event.get("args")
            return [self.story.call(call, wire.word(event, "name"), {} if args is None else args, at, line)]
        if kind == "tool.result":
            result = inner(event, "result")
            outcome = "ok"
            if result.get("isError") is True:
                outcome = "interrupted" if self._cancelled else "error"
            return [self.story.result(call, outcome, rec.text(result.get("output")), at, line)]
        told = wire.unknown(event)
        return [self.story.event(told.kind, told.body, at, f"byte:{line.offset}")]

    def _ended(self, record: dict[str, Any], at: str | None, line: JsonlLine) -> list[NewEvent]:
        if self._turn_id is not None and record.get("turnId") != self._turn_id:
            return []
        reason, turn = wire.word(record, "reason"), self.story.turns.now
        if reason == "completed":
            turn.ended = COMPLETE
            return []
        if reason == "cancelled":
            turn.ended = ABORTED
            body = {"text": "the turn was cancelled", "code": "interrupted"}
            return [self.story.event("notice", body, at, f"byte:{line.offset}")]
        error = inner(record, "error")
        turn.ended, turn.reason = FAILED, wire.word(error, "message") or reason
        body = {"text": turn.reason, "code": "api_error", "name": wire.word(error, "code") or reason}
        return [self.story.event("error", body, at, f"byte:{line.offset}")]

    def _note(self, record: dict[str, Any], kind: str, at: str | None, line: JsonlLine) -> NewEvent:
        name = f"byte:{line.offset}"
        if kind == "context.apply_compaction":
            summary = record.get("summary")
            said = rec.text(summary.get("content")) if isinstance(summary, dict) else rec.text(summary)
            said = said or wire.word(record, "contextSummary")
            return self.story.event("notice", {"text": said, "code": "compaction"}, at, name)
        if kind == "context.undo":
            body = {"text": f"the user took back {record.get('count')} prompts", "code": "undo"}
            return self.story.event("notice", body, at, name)
        if kind == "context.clear":
            return self.story.event("notice", {"text": "the context was cleared", "code": "clear"}, at, name)
        told = wire.unknown(record)
        return self.story.event(told.kind, told.body, at, name)
