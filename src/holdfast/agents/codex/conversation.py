"""Which events do the turns of a Codex conversation consist of?"""

from __future__ import annotations

from typing import Any

from holdfast.agents.codex import records, tool_calls
from holdfast.agents.codex.inspect import DANGLING, CodexFacts, LastTurn, RecentIds
from holdfast.agents.codex.tool_calls import CodexCallResult, CodexToolCall
from holdfast.agents.codex.turns import MOST, CodexTurn, PendingMessage
from holdfast.model.event import NewEvent, Origin
from holdfast.timestamps import when_stamp
from holdfast.transcripts import jsonl
from holdfast.transcripts.jsonl import JsonlLine, text_field

TITLE = 100  # characters


class CodexConversation:
    """The turns of a rollout as events; it also collects facts."""

    def __init__(self, agent: str, native_id: str):
        self.facts = CodexFacts()
        self._agent = agent
        self._native_id = native_id
        self._turn: CodexTurn | None = None
        self._known_items = RecentIds()  # ids of items
        self._ended = RecentIds()  # call ids
        self._stopped: str | None = None  # the call that was already reported as aborted
        self._line = JsonlLine(number=0, offset=0, size=0)
        self._at: Any = None  # the timestamp of the current record, unparsed
        self._was: Any = None  # and of the record before it
        self._events: list[NewEvent] = []

    # --- Messages

    def _message(self, payload: dict[str, Any], id: str) -> None:
        role = text_field(payload, "role")
        if role == "assistant":
            for part, text in enumerate(records.texts(payload.get("content"))):
                self._say("assistant", text, id, self._record_id("message", id, part))
        elif role == "user":
            whose = records.user_text(payload)
            for code, text in whose.notices:
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
        self.facts.has_messages |= kind != "thinking"
        self._put(self._new(kind, {"text": text}, record_id))

    def _on_event_text(self, kind: str, text: str, id: str, part: int = 0) -> None:
        """Emit a message of an event record that an item also holds, before or after it."""
        if not text.strip():
            return
        event = self._new(kind, {"text": text}, self._record_id("item", id, part))
        if kind != "user":
            turn = self._need_turn()
            turn.by_event(PendingMessage(kind, text, id, event))
            if len(turn.pending) > MOST:
                self._flush()
        elif self._turn is None or not self._turn.was_item(kind, text):
            # The item for the model is lost or has not come yet.
            self._prompt(text)
            self._need_turn().prompts.append(text)
            self.facts.has_messages = True
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

    # --- Tools

    def _call(self, what: str, payload: dict[str, Any], value: dict[str, Any]) -> None:
        call = tool_calls.begin(what, payload)
        if call is None or jsonl.storable_id(call.id) is None:
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
        id = jsonl.storable_id(payload.get("call_id") or payload.get("id"))
        if id is None:
            self._unknown(value)
            return
        turn = self._need_turn()
        output = tool_calls.output(payload)
        call = turn.calls.pop(id, None)
        if call is not None:
            self._flush()
            turn.answer_last = False
            self._summary(call, _both(call.ending, output))
        elif id in self._ended:
            self.facts.note("duplicate_result", line=self._line.number, call=id)
            self._notice("duplicate_result", output.output, call=id)
        else:
            self.facts.note("orphan_result", line=self._line.number, call=id)
            known = turn.loose.pop(id, None)
            call = CodexToolCall(id, text_field(payload, "name") or "unknown", None)
            if known is not None and known.command is not None:
                call = CodexToolCall(id, "command_execution", {"command": known.command})
                self._begin(call)
            self._summary(call, _both(known, output))

    def _ending(self, item: dict[str, Any]) -> None:
        call_result = tool_calls.ending(item)
        if call_result is None or jsonl.storable_id(call_result[0]) is None:
            return
        id, ending = call_result
        turn = self._need_turn()
        if (call := turn.calls.get(id)) is not None:
            call.ending = ending
        elif id in self._ended:
            # A command that continued after its first output for the model; an aborted one is reported.
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

    # --- Turn boundaries

    def _start(self) -> None:
        turn = self._turn
        if turn is not None and turn.number and not (turn.explicit or turn.begun or turn.ended):
            turn.explicit = True  # its prompt comes before it
            return
        self._close()
        self._turn = CodexTurn(explicit=True)

    def _finish(self, payload: dict[str, Any]) -> None:
        turn = self._need_turn()
        self._flush()
        error = payload.get("error")
        turn.answered |= bool(text_field(payload, "last_agent_message"))
        if error:
            message = text_field(error, "message") if isinstance(error, dict) else str(error)
            turn.ended, turn.reason = "failed", message
            self._put(self._new("error", {"text": message, "code": "agent_error"}))
        else:
            turn.ended = "complete"

    def _close(self) -> None:
        """The turn is over, whatever its records say: end what is open."""
        turn = self._turn
        if turn is None:
            return
        self._flush()
        self._turn = None
        dangling = bool(turn.calls)
        now, self._at = self._at, self._was
        for call in turn.calls.values():
            if len(self.facts.dangling) < DANGLING:
                open_call = {"call": call.id, "name": call.name, "input": call.input}
                self.facts.dangling.append((turn.number, open_call))
            unknown = CodexCallResult("interrupted", jsonl.UNKNOWN_OUTCOME)
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
        self._notice("rolled_back", f"the last {count} turns were rolled back", turns=count)

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
                turn.answered = turn.answer_last = self.facts.has_messages = True
            self._put(event)

    # --- Events

    def _put(self, event: NewEvent) -> None:
        self._events.append(event)

    def _new(self, kind: str, body: dict[str, Any], record_id: str | None = "") -> NewEvent:
        """An event of the current line; without an id its origin is its position."""
        origin = None
        if record_id is not None:
            named = record_id or f"byte:{self._line.offset}"
            origin = Origin(self._agent, self._native_id, named)
        return NewEvent(kind, body, at=when_stamp(self._at), origin=origin)

    def _record_id(self, kind: str, id: str, part: int = 0) -> str:
        named = f"{kind}:{id}" if jsonl.storable_id(id) else f"byte:{self._line.offset}"
        return named if part == 0 else f"{named}:{part}"

    def _notice(self, code: str, text: str, **more: Any) -> None:
        self._put(self._new("notice", {"text": text, "code": code, **more}))

    def _unknown(self, value: dict[str, Any]) -> None:
        self._put(self._new("notice", jsonl.unknown(value).body))


def title(prompt: str) -> str | None:
    """The first line of a prompt, shortened; None if it is empty or not fit for a title."""
    first = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return jsonl.storable_id(first if len(first) <= TITLE else first[: TITLE - 1] + "…")


def _is_complete(turn: CodexTurn) -> bool:
    if turn.ended is None and not turn.explicit:
        return turn.answer_last  # an old file without end records
    return turn.ended == "complete" and turn.answered


def _both(known: CodexCallResult | None, reported: CodexCallResult) -> CodexCallResult:
    """The output that the model got, with the exit status that the system got."""
    if known is None or reported.outcome == "interrupted":
        return reported
    code = known.exit_code if known.exit_code is not None else reported.exit_code
    return CodexCallResult(
        known.outcome if known.outcome == "error" else reported.outcome, reported.output, code
    )
