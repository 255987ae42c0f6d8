"""A rollout's records folded into events and facts, one line at a time."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.agents.codex import records, tool_calls
from holdfast.agents.codex.inspect import DANGLING, CodexFacts, LastTurn, RecentIds
from holdfast.agents.codex.records import CodexRecord, record
from holdfast.agents.codex.tool_calls import CodexCallResult, CodexToolCall
from holdfast.model.event import NewEvent, Origin
from holdfast.timestamps import when_stamp as stamp
from holdfast.transcripts import jsonl
from holdfast.transcripts import jsonl as wire
from holdfast.transcripts.jsonl import JsonlLine, word

MOST = 100  # things said that wait for their other half


class PendingMessage(msgspec.Struct, frozen=True):
    """Something said, as an event tells it beside the item for the model."""

    kind: str
    text: str
    id: str
    event: NewEvent


class CodexTurn(msgspec.Struct):
    """From one prompt to the next."""

    explicit: bool = False  # it began with a record of its own
    number: int = 0  # from 1; 0 while nobody prompted
    begun: bool = False  # something came after the prompt
    answered: bool = False
    answer_last: bool = False  # nothing came after the answer
    ended: str | None = None
    reason: str = ""
    calls: dict[str, CodexToolCall] = {}
    loose: dict[str, CodexCallResult] = {}  # endings of calls that were never begun
    items: list[tuple[str, str]] = []  # said by items, and not yet by events: kind and text
    told: list[PendingMessage] = []  # said by events, and not yet by items
    prompts: list[str] = []  # told by events, and put as such

    def by_item(self, kind: str, text: str, id: str) -> None:
        """An item says it; the event that said it before, or will, is the same."""
        kept = [told for told in self.told if not _is_same(told, kind, text, id)]
        if len(kept) == len(self.told):
            self.items.append((kind, text))
            del self.items[:-MOST]
        self.told = kept

    def by_event(self, told: PendingMessage) -> None:
        """An event says it; kept until an item says the same, or it is clear that none will."""
        if not self.was_item(told.kind, told.text):
            self.told.append(told)

    def was_item(self, kind: str, text: str) -> bool:
        """Whether an item said it, for which no event came yet."""
        for place, said in enumerate(self.items):
            if said[0] == kind and is_like(said[1], text):
                if kind != "thinking":  # of one item there are several events
                    del self.items[place]
                return True
        return False

    def was_prompt(self, text: str) -> bool:
        """Whether an event told that prompt, for which no item came yet."""
        for place, told in enumerate(self.prompts):
            if is_like(text, told):
                del self.prompts[place]
                return True
        return False

    def flush(self) -> list[NewEvent]:
        """What only events said."""
        events = [told.event for told in self.told]
        self.told = []
        return events


def is_like(item: str, event: str) -> bool:
    """Whether an item's text is what an event told; an event may tell a part, or leave marks out."""
    return item.strip() == event.strip() or event in item


def _is_same(told: PendingMessage, kind: str, text: str, id: str) -> bool:
    return told.kind == kind and ((bool(id) and told.id == id) or is_like(text, told.text))


# --- The turns of a rollout, told one thing after the other: events out, facts kept.

TITLE = 100  # characters


class CodexConversation:
    """The turns of a rollout: what was said and done in them, as events."""

    def __init__(self, agent: str, native_id: str):
        self.facts = CodexFacts()
        self._agent = agent
        self._native_id = native_id
        self._turn: CodexTurn | None = None
        self._met = RecentIds()  # ids of items
        self._ended = RecentIds()  # calls
        self._stopped: str | None = None  # the call whose end was told as broken off
        self._line = JsonlLine(number=0, offset=0, size=0)
        self._at: Any = None  # the time of the present record, as it is told
        self._was: Any = None  # and of the one before
        self._events: list[NewEvent] = []

    # --- what was said

    def _message(self, payload: dict[str, Any], id: str) -> None:
        role = word(payload, "role")
        if role == "assistant":
            for part, text in enumerate(records.texts(payload.get("content"))):
                self._say("assistant", text, id, self._record_id("message", id, part))
        elif role == "user":
            whose = records.user(payload)
            for code, text in whose.told:
                self._notice(code, text)
            if whose.person:
                self._say("user", "\n".join(whose.person), id, self._record_id("message", id))
        elif role not in ("developer", "system"):
            self._unknown(payload)

    def _say(self, kind: str, text: str, id: str, record_id: str) -> None:
        if not text.strip():
            return
        if kind == "user":
            if self._turn is not None and self._turn.was_prompt(text):
                return
            self._prompt(text)
        turn = self._need_turn()
        turn.by_item(kind, text, id)
        if kind == "assistant":
            turn.answered = turn.answer_last = turn.begun = True
        elif kind == "thinking":
            turn.begun = True
        self.facts.said |= kind != "thinking"
        self._put(self._new(kind, {"text": text}, record_id))

    def _tell(self, kind: str, text: str, id: str, part: int = 0) -> None:
        """An event says what an item says too, before or after it."""
        if not text.strip():
            return
        event = self._new(kind, {"text": text}, self._record_id("item", id, part))
        if kind != "user":
            turn = self._need_turn()
            turn.by_event(PendingMessage(kind, text, id, event))
            if len(turn.told) > MOST:
                self._flush()
        elif self._turn is None or not self._turn.was_item(kind, text):
            # The item for the model is lost, or has not come yet.
            self._prompt(text)
            self._need_turn().prompts.append(text)
            self.facts.said = True
            self._put(event)

    def _prompt(self, text: str) -> None:
        turn = self._turn
        if turn is None or turn.ended or (turn.number and not turn.explicit):
            self._close()
            turn = self._turn = CodexTurn()
        self._flush()
        if not turn.number:
            self.facts.complete.append(0)
            turn.number = self.facts.turns
        if self.facts.title is None:
            self.facts.title = title(text)

    # --- tools

    def _call(self, what: str, payload: dict[str, Any], value: dict[str, Any]) -> None:
        call = tool_calls.begin(what, payload)
        if call is None or wire.plain(call.id) is None:
            self._unknown(value)
            return
        turn = self._need_turn()
        if call.id in turn.calls or call.id in self._ended:
            self.facts.note("duplicate_record", line=self._line.number, call=call.id)
            return
        self._flush()
        turn.begun, turn.answer_last = True, False
        self._begin(call)
        if what in tool_calls.WHOLE:
            failed = payload.get("status") in ("failed", "incomplete")
            self._summary(call, CodexCallResult("error" if failed else "ok"))
        else:
            turn.calls[call.id] = call

    def _output(self, payload: dict[str, Any], value: dict[str, Any]) -> None:
        id = wire.plain(payload.get("call_id") or payload.get("id"))
        if id is None:
            self._unknown(value)
            return
        turn = self._need_turn()
        told = tool_calls.output(payload)
        call = turn.calls.pop(id, None)
        if call is not None:
            self._flush()
            turn.answer_last = False
            self._summary(call, _both(call.ending, told))
        elif id in self._ended:
            self.facts.note("duplicate_result", line=self._line.number, call=id)
            self._notice("duplicate_result", told.output, call=id)
        else:
            self.facts.note("orphan_result", line=self._line.number, call=id)
            known = turn.loose.pop(id, None)
            call = CodexToolCall(id, word(payload, "name") or "unknown", None)
            if known is not None and known.command is not None:
                call = CodexToolCall(id, "command_execution", {"command": known.command})
                self._begin(call)
            self._summary(call, _both(known, told))

    def _ending(self, item: dict[str, Any]) -> None:
        found = tool_calls.ending(item)
        if found is None or wire.plain(found[0]) is None:
            return
        id, ending = found
        turn = self._need_turn()
        if (call := turn.calls.get(id)) is not None:
            call.ending = ending
        elif id in self._ended:
            # A command that went on after its first output for the model; one that was broken off is told.
            if id != self._stopped and ending.exit_code is not None:
                facts = {"call": id, "exit_code": ending.exit_code}
                self._notice("command_ended", f"a command ended with {ending.exit_code}", **facts)
        elif item.get("source") == "user_shell" and ending.command is not None:
            call = CodexToolCall(id, "command_execution", {"command": ending.command})
            self._begin(call)
            self._summary(call, ending)
        else:
            turn.loose[id] = ending

    def _begin(self, call: CodexToolCall) -> None:
        body = {"call": call.id, "name": call.name, "input": call.input}
        self._put(self._new("tool_progress", body, f"call:{call.id}"))

    def _summary(self, call: CodexToolCall, ending: CodexCallResult, known: bool = True) -> None:
        self._ended.add(call.id)
        if ending.outcome == "interrupted":
            self._stopped = call.id
        body: dict[str, Any] = {"call": call.id, "name": call.name}
        body |= {"outcome": ending.outcome, "output": ending.output}
        if ending.exit_code is not None:
            body["exit_code"] = ending.exit_code
        self._put(self._new("tool_summary", body, f"result:{call.id}" if known else None))

    # --- turns

    def _start(self) -> None:
        turn = self._turn
        if turn is not None and turn.number and not (turn.explicit or turn.begun or turn.ended):
            turn.explicit = True  # its prompt stands before it
            return
        self._close()
        self._turn = CodexTurn(explicit=True)

    def _finish(self, payload: dict[str, Any]) -> None:
        turn = self._need_turn()
        self._flush()
        error = payload.get("error")
        turn.answered |= bool(word(payload, "last_agent_message"))
        if error:
            message = word(error, "message") if isinstance(error, dict) else str(error)
            turn.ended, turn.reason = "failed", message
            self._put(self._new("error", {"text": message, "code": "agent_error"}))
        else:
            turn.ended = "complete"

    def _close(self) -> None:
        """The turn is over, whatever its records say: what is open in it ends now."""
        turn = self._turn
        if turn is None:
            return
        self._flush()
        self._turn = None
        dangling = bool(turn.calls)
        now, self._at = self._at, self._was
        for call in turn.calls.values():
            if len(self.facts.dangling) < DANGLING:
                told = {"call": call.id, "name": call.name, "input": call.input}
                self.facts.dangling.append((turn.number, told))
            unknown = CodexCallResult("interrupted", wire.UNKNOWN_OUTCOME)
            self._summary(call, call.ending or unknown, known=call.ending is not None)
        self._at = now
        if turn.number and not dangling and _is_complete(turn):
            self.facts.complete[turn.number - 1] = 1
        if turn.number or turn.begun:
            self.facts.last = LastTurn(turn.ended, turn.begun, dangling, turn.reason)
            if turn.ended is None and not turn.explicit and _is_complete(turn):
                self.facts.last = LastTurn("complete", turn.begun, dangling)

    def _roll_back(self, turns: Any) -> None:
        count = turns if type(turns) is int and turns > 0 else 0
        self._close()
        self.facts.take_back(count)
        self.facts.last = None
        self._notice("rolled_back", f"the last {count} turns were taken back", turns=count)

    def _need_turn(self) -> CodexTurn:
        if self._turn is None:
            self._turn = CodexTurn()
        return self._turn

    def _flush(self) -> None:
        turn = self._turn
        if turn is None:
            return
        for event in turn.flush():
            turn.begun = True
            if event.kind == "assistant":
                turn.answered = turn.answer_last = self.facts.said = True
            self._put(event)

    # --- events

    def _put(self, event: NewEvent) -> None:
        self._events.append(event)

    def _new(self, kind: str, body: dict[str, Any], record_id: str | None = "") -> NewEvent:
        """An event of the present line; without an id of its own it is known by where it stands."""
        origin = None
        if record_id is not None:
            named = record_id or f"byte:{self._line.offset}"
            origin = Origin(self._agent, self._native_id, named)
        return NewEvent(kind, body, at=stamp(self._at), origin=origin)

    def _record_id(self, kind: str, id: str, part: int = 0) -> str:
        named = f"{kind}:{id}" if wire.plain(id) else f"byte:{self._line.offset}"
        return named if part == 0 else f"{named}:{part}"

    def _notice(self, code: str, text: str, **more: Any) -> None:
        self._put(self._new("notice", {"text": text, "code": code, **more}))

    def _unknown(self, value: dict[str, Any]) -> None:
        self._put(self._new("notice", wire.unknown(value).body))


def title(prompt: str) -> str | None:
    """The first line of a prompt, cut; None if it is empty or not for a header."""
    first = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return wire.plain(first if len(first) <= TITLE else first[: TITLE - 1] + "…")


def _is_complete(turn: CodexTurn) -> bool:
    if turn.ended is None and not turn.explicit:
        return turn.answer_last  # an old file, which says nothing of ends
    return turn.ended == "complete" and turn.answered


def _both(known: CodexCallResult | None, told: CodexCallResult) -> CodexCallResult:
    """The output as the model was given it, with the status as the system gave it."""
    if known is None or told.outcome == "interrupted":
        return told
    code = known.exit_code if known.exit_code is not None else told.exit_code
    return CodexCallResult(known.outcome if known.outcome == "error" else told.outcome, told.output, code)


# --- A rollout's records folded into events and facts, one line at a time.

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


class CodexRollout(CodexConversation):
    """What a rollout tells, line by line."""

    def __init__(self, agent: str, native_id: str):
        super().__init__(agent, native_id)
        self._before: dict[str, Any] = {}
        self._ordinal = -1

    def take(self, line: JsonlLine) -> list[NewEvent]:
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

    def _take(self, found: CodexRecord, value: dict[str, Any]) -> None:
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
        if id and what not in tool_calls.CALLS | tool_calls.OUTPUTS:
            if id in self._met:
                self.facts.note("duplicate_record", line=self._line.number, id=id)
                return
            self._met.add(id)
        if what == "message":
            self._message(payload, id)
        elif what == "reasoning":
            text = records.joined(payload.get("summary")) or records.joined(payload.get("content"))
            self._say("thinking", text, id, self._record_id("reasoning", id))
        elif what in tool_calls.CALLS or what in tool_calls.WHOLE:
            self._call(what, payload, value)
        elif what in tool_calls.OUTPUTS:
            self._output(payload, value)
        elif what == "agent_message":
            self._notice("subagent", records.joined(payload.get("content")))
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
        elif what in tool_calls.ENDINGS:
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
            self._tell("user", "\n".join(records.texts(item.get("content"))), id)
        elif what == "AgentMessage":
            for part, text in enumerate(records.texts(item.get("content"))):
                self._tell("assistant", text, id, part)
        elif what == "Reasoning":
            summary, raw = item.get("summary_text"), item.get("raw_content")
            self._tell("thinking", records.joined(summary) or records.joined(raw), id)
        elif what in tool_calls.ENDINGS:
            self._ending(item)
        elif what == "Plan":
            self._notice("plan", word(item, "text"))
        elif what in _REVIEWS:
            self._notice("review", what)
        elif what not in _QUIET_ITEMS:
            self._unknown(value)
