"""A rollout's records folded into events and facts, one line at a time."""

from __future__ import annotations

from typing import Any

from holdfast.drive import line as wire
from holdfast.drive.line import word
from holdfast.history import jsonl
from holdfast.history.codex import calls, said
from holdfast.history.codex.record import Record, record
from holdfast.history.codex.story import Story
from holdfast.history.jsonl import Line
from holdfast.model.event import NewEvent

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
        "context_compacted",  # there is a record of its own
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


class Fold(Story):
    """What a rollout tells, line by line."""

    def __init__(self, agent: str, native_id: str):
        super().__init__(agent, native_id)
        self._before: dict[str, Any] = {}
        self._ordinal = -1

    def take(self, line: Line) -> list[NewEvent]:
        """The events that follow from one line."""
        self._events = []
        self._line = line
        if line.problem is not None:
            self.facts.note(line.problem, line=line.number, offset=line.offset)
        if line.value is None:
            self._put(jsonl.notice(line, self._agent, self._native_id))
        elif line.value == self._before and word(line.value, "type") == "response_item":
            self.facts.note("duplicate_record", line=line.number)
        else:
            self._before = line.value
            self._take(record(line.value), line.value)
        self.facts.records += 1
        return self._events

    def end(self) -> list[NewEvent]:
        """What is still open when the file ends."""
        self._events = []
        self._was = self._at
        self._close()
        return self._events

    # --- records

    def _take(self, found: Record, value: dict[str, Any]) -> None:
        self._was, self._at = self._at, found.at
        facts = self.facts
        if facts.records == 0 and found.kind == "session_meta":
            facts.header = True
            facts.header_id = wire.plain(found.payload.get("id") or found.payload.get("session_id"))
        self._count(found.ordinal)
        if facts.thread_id is None:
            facts.thread_id = wire.plain(found.payload.get("thread_id"))
        if found.kind == "turn_context" or (found.kind == "session_meta" and facts.cwd is None):
            facts.cwd = wire.plain(found.payload.get("cwd")) or facts.cwd
        if found.kind == "response_item":
            self._item(found.what, found.payload, value)
        elif found.kind == "event_msg":
            self._event(found.what, found.payload, value)
        elif found.kind == "compacted":
            text = word(found.payload, "message") or "the context was compacted"
            self._notice("compacted", text)
        elif found.kind == "inter_agent_communication":
            self._notice("subagent", word(found.payload, "content"))
        elif found.kind not in _QUIET and found.kind != "turn_context":
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
        id = word(payload, "id")
        if id and what not in calls.CALLS | calls.OUTPUTS:
            if id in self._met:
                self.facts.note("duplicate_record", line=self._line.number, id=id)
                return
            self._met.add(id)
        if what == "message":
            self._message(payload, id)
        elif what == "reasoning":
            text = said.joined(payload.get("summary")) or said.joined(payload.get("content"))
            self._say("thinking", text, id, self._record_id("reasoning", id))
        elif what in calls.CALLS or what in calls.WHOLE:
            self._call(what, payload, value)
        elif what in calls.OUTPUTS:
            self._output(payload, value)
        elif what == "agent_message":
            self._notice("subagent", said.joined(payload.get("content")))
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
            turn.ended, turn.reason = "aborted", word(payload, "reason")
            self._notice("turn_aborted", turn.reason or "the turn was stopped")
        elif what == "item_completed":
            item = payload.get("item")
            if isinstance(item, dict):
                self._completed(word(item, "type"), item, value)
            else:
                self._unknown(value)
        elif what == "user_message":
            self._tell("user", word(payload, "message"), "")
        elif what == "agent_message":
            self._tell("assistant", word(payload, "message"), "")
        elif what in ("agent_reasoning", "agent_reasoning_raw_content"):
            self._tell("thinking", word(payload, "text"), "")
        elif what in calls.ENDINGS:
            self._ending(payload)
        elif what == "thread_rolled_back":
            self._roll_back(payload.get("num_turns"))
        elif what == "error":
            self._put(self._new("error", {"text": word(payload, "message"), "code": "agent_error"}))
        elif what in ("warning", "stream_error"):
            self._notice("agent_warning", word(payload, "message"))
        elif what in _REVIEWS:
            self._notice("review", what)
        elif what not in _QUIET_EVENTS:
            self._unknown(value)

    def _completed(self, what: str, item: dict[str, Any], value: dict[str, Any]) -> None:
        id = word(item, "id")
        if id and what in _SAYINGS:
            if f"item:{id}" in self._met:
                self.facts.note("duplicate_record", line=self._line.number, id=id)
                return
            self._met.add(f"item:{id}")
        if what == "UserMessage":
            self._tell("user", "\n".join(said.texts(item.get("content"))), id)
        elif what == "AgentMessage":
            for part, text in enumerate(said.texts(item.get("content"))):
                self._tell("assistant", text, id, part)
        elif what == "Reasoning":
            summary, raw = item.get("summary_text"), item.get("raw_content")
            self._tell("thinking", said.joined(summary) or said.joined(raw), id)
        elif what in calls.ENDINGS:
            self._ending(item)
        elif what == "Plan":
            self._notice("plan", word(item, "text"))
        elif what in _REVIEWS:
            self._notice("review", what)
        elif what not in _QUIET_ITEMS:
            self._unknown(value)
