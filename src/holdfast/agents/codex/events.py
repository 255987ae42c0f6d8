"""Which events and facts does a rollout contain, line by line?"""

from __future__ import annotations

from typing import Any

from holdfast.agents.codex import records, tool_calls
from holdfast.agents.codex.conversation import CodexConversation
from holdfast.agents.codex.records import CodexRecord, record
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl
from holdfast.transcripts.jsonl import JsonlLine, text_field

_QUIET = frozenset(
    {
        "session_meta",
        "world_state",
        "token_usage_record",
        "security_risk_score",
        "inter_agent_communication_metadata",
        "state",
    }
)
_QUIET_EVENTS = frozenset(
    {
        "token_count",
        "thread_settings_applied",
        "thread_goal_updated",
        "thread_name_updated",
        "item_started",
        "exec_command_begin",
        "patch_apply_begin",
        "mcp_tool_call_begin",
        "web_search_begin",
        "web_search_end",
        "image_generation_begin",
        "image_generation_end",
        "view_image_tool_call",
        "context_compacted",  # another record covers it
        "agent_reasoning_section_break",
        "sub_agent_activity",
        "turn_diff",
        "shutdown_complete",
    }
)
_QUIET_ITEMS = frozenset(
    {"HookPrompt", "SubAgentActivity", "WebSearch", "ImageView", "ImageGeneration", "ContextCompaction"}
)
_QUIET_RESPONSES = frozenset(
    {"compaction", "compaction_summary", "context_compaction", "compaction_trigger", "ghost_snapshot"}
)
_SAYINGS = frozenset({"UserMessage", "AgentMessage", "Reasoning"})
_REVIEWS = frozenset({"entered_review_mode", "exited_review_mode", "EnteredReviewMode", "ExitedReviewMode"})


class CodexRollout(CodexConversation):
    """Reads a rollout line by line."""

    def __init__(self, agent: str, native_id: str):
        super().__init__(agent, native_id)
        self._before: dict[str, Any] = {}
        self._ordinal = -1

    def on_line(self, line: JsonlLine) -> list[NewEvent]:
        """The events of one line."""
        self._events = []
        self._line = line
        if line.problem is not None:
            self.facts.note(line.problem, line=line.number, offset=line.offset)
        if line.value is None:
            self._put(jsonl.notice(line, self._agent, self._native_id))
        elif line.value == self._before and text_field(line.value, "type") == "response_item":
            self.facts.note("duplicate_record", line=line.number)
        else:
            self._before = line.value
            self._on_record(record(line.value), line.value)
        self.facts.records += 1
        return self._events

    def end(self) -> list[NewEvent]:
        """End what is still open at the end of the file."""
        self._events = []
        self._was = self._at
        self._close()
        return self._events

    # --- Record types

    def _on_record(self, entry: CodexRecord, value: dict[str, Any]) -> None:
        self._was, self._at = self._at, entry.at
        facts = self.facts
        if facts.records == 0 and entry.kind == "session_meta":
            facts.header = True
            facts.header_id = jsonl.storable_id(entry.payload.get("id") or entry.payload.get("session_id"))
        self._count(entry.ordinal)
        if facts.thread_id is None:
            facts.thread_id = jsonl.storable_id(entry.payload.get("thread_id"))
        if entry.kind == "turn_context" or (entry.kind == "session_meta" and facts.cwd is None):
            facts.cwd = jsonl.storable_id(entry.payload.get("cwd")) or facts.cwd
        if entry.kind == "response_item":
            self._item(entry.what, entry.payload, value)
        elif entry.kind == "event_msg":
            self._event(entry.what, entry.payload, value)
        elif entry.kind == "compacted":
            text = text_field(entry.payload, "message") or "the context was compacted"
            self._notice("compacted", text)
        elif entry.kind == "inter_agent_communication":
            self._notice("subagent", text_field(entry.payload, "content"))
        elif entry.kind not in _QUIET and entry.kind != "turn_context":
            self._unknown(value)

    def _count(self, ordinal: int | None) -> None:
        if ordinal is None:
            return
        if ordinal <= self._ordinal:
            self.facts.note("duplicate_ordinal", line=self._line.number, ordinal=ordinal)
        elif ordinal > self._ordinal + 1:
            self.facts.note("ordinal_gap", line=self._line.number, after=self._ordinal, ordinal=ordinal)
        self._ordinal = ordinal

    def _item(self, what: str, payload: dict[str, Any], value: dict[str, Any]) -> None:
        id = text_field(payload, "id")
        if id and what not in tool_calls.CALLS | tool_calls.OUTPUTS:
            if id in self._known_items:
                self.facts.note("duplicate_record", line=self._line.number, id=id)
                return
            self._known_items.add(id)
        if what == "message":
            self._message(payload, id)
        elif what == "reasoning":
            text = records.summary_text(payload.get("summary")) or records.summary_text(
                payload.get("content")
            )
            self._say("thinking", text, id, self._record_id("reasoning", id))
        elif what in tool_calls.CALLS or what in tool_calls.WHOLE:
            self._call(what, payload, value)
        elif what in tool_calls.OUTPUTS:
            self._output(payload, value)
        elif what == "agent_message":
            self._notice("subagent", records.summary_text(payload.get("content")))
        elif what not in _QUIET_RESPONSES:
            self._unknown(value)

    def _event(self, what: str, payload: dict[str, Any], value: dict[str, Any]) -> None:
        if what == "task_started":
            self._start()
        elif what == "task_complete":
            self._finish(payload)
        elif what == "turn_aborted":
            turn = self._need_turn()
            self._flush()
            turn.ended, turn.reason = "aborted", text_field(payload, "reason")
            self._notice("turn_aborted", turn.reason or "the turn was stopped")
        elif what == "item_completed":
            item = payload.get("item")
            if isinstance(item, dict):
                self._completed(text_field(item, "type"), item, value)
            else:
                self._unknown(value)
        elif what == "user_message":
            self._on_event_text("user", text_field(payload, "message"), "")
        elif what == "agent_message":
            self._on_event_text("assistant", text_field(payload, "message"), "")
        elif what in ("agent_reasoning", "agent_reasoning_raw_content"):
            self._on_event_text("thinking", text_field(payload, "text"), "")
        elif what in tool_calls.ENDINGS:
            self._ending(payload)
        elif what == "thread_rolled_back":
            self._roll_back(payload.get("num_turns"))
        elif what == "error":
            self._put(self._new("error", {"text": text_field(payload, "message"), "code": "agent_error"}))
        elif what in ("warning", "stream_error"):
            self._notice("agent_warning", text_field(payload, "message"))
        elif what in _REVIEWS:
            self._notice("review", what)
        elif what not in _QUIET_EVENTS:
            self._unknown(value)

    def _completed(self, what: str, item: dict[str, Any], value: dict[str, Any]) -> None:
        id = text_field(item, "id")
        if id and what in _SAYINGS:
            if f"item:{id}" in self._known_items:
                self.facts.note("duplicate_record", line=self._line.number, id=id)
                return
            self._known_items.add(f"item:{id}")
        if what == "UserMessage":
            self._on_event_text("user", "\n".join(records.texts(item.get("content"))), id)
        elif what == "AgentMessage":
            for part, text in enumerate(records.texts(item.get("content"))):
                self._on_event_text("assistant", text, id, part)
        elif what == "Reasoning":
            summary, raw = item.get("summary_text"), item.get("raw_content")
            self._on_event_text("thinking", records.summary_text(summary) or records.summary_text(raw), id)
        elif what in tool_calls.ENDINGS:
            self._ending(item)
        elif what == "Plan":
            self._notice("plan", text_field(item, "text"))
        elif what in _REVIEWS:
            self._notice("review", what)
        elif what not in _QUIET_ITEMS:
            self._unknown(value)
