"""The turns of a rollout, told one thing after the other: events out, facts kept."""

from __future__ import annotations

from typing import Any

from holdfast.drive import line as wire
from holdfast.drive.line import word
from holdfast.history.codex import calls, said
from holdfast.history.codex.calls import Call, Ending
from holdfast.history.codex.facts import DANGLING, Facts, Last, Recent
from holdfast.history.codex.turn import MOST, Told, Turn
from holdfast.history.jsonl import Line
from holdfast.history.when import stamp
from holdfast.model.event import NewEvent, Origin

TITLE = 100  # characters


class Story:
    """The turns of a rollout: what was said and done in them, as events."""

    def __init__(self, agent: str, native_id: str):
        self.facts = Facts()
        self._agent = agent
        self._native_id = native_id
        self._turn: Turn | None = None
        self._met = Recent()  # ids of items
        self._ended = Recent()  # calls
        self._stopped: str | None = None  # the call whose end was told as broken off
        self._line = Line(number=0, offset=0, size=0)
        self._at: Any = None  # the time of the present record, as it is told
        self._was: Any = None  # and of the one before
        self._events: list[NewEvent] = []

    # --- what was said

    def _message(self, payload: dict[str, Any], id: str) -> None:
        role = word(payload, "role")
        if role == "assistant":
            for part, text in enumerate(said.texts(payload.get("content"))):
                self._say("assistant", text, id, self._record_id("message", id, part))
        elif role == "user":
            whose = said.user(payload)
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
            turn.by_event(Told(kind, text, id, event))
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
            turn = self._turn = Turn()
        self._flush()
        if not turn.number:
            self.facts.complete.append(0)
            turn.number = self.facts.turns
        if self.facts.title is None:
            self.facts.title = title(text)

    # --- tools

    def _call(self, what: str, payload: dict[str, Any], value: dict[str, Any]) -> None:
        call = calls.begin(what, payload)
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
        if what in calls.WHOLE:
            failed = payload.get("status") in ("failed", "incomplete")
            self._summary(call, Ending("error" if failed else "ok"))
        else:
            turn.calls[call.id] = call

    def _output(self, payload: dict[str, Any], value: dict[str, Any]) -> None:
        id = wire.plain(payload.get("call_id") or payload.get("id"))
        if id is None:
            self._unknown(value)
            return
        turn = self._need_turn()
        told = calls.output(payload)
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
            call = Call(id, word(payload, "name") or "unknown", None)
            if known is not None and known.command is not None:
                call = Call(id, "command_execution", {"command": known.command})
                self._begin(call)
            self._summary(call, _both(known, told))

    def _ending(self, item: dict[str, Any]) -> None:
        found = calls.ending(item)
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
            call = Call(id, "command_execution", {"command": ending.command})
            self._begin(call)
            self._summary(call, ending)
        else:
            turn.loose[id] = ending

    def _begin(self, call: Call) -> None:
        body = {"call": call.id, "name": call.name, "input": call.input}
        self._put(self._new("tool_progress", body, f"call:{call.id}"))

    def _summary(self, call: Call, ending: Ending, known: bool = True) -> None:
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
        self._turn = Turn(explicit=True)

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
            unknown = Ending("interrupted", wire.UNKNOWN_OUTCOME)
            self._summary(call, call.ending or unknown, known=call.ending is not None)
        self._at = now
        if turn.number and not dangling and _is_complete(turn):
            self.facts.complete[turn.number - 1] = 1
        if turn.number or turn.begun:
            self.facts.last = Last(turn.ended, turn.begun, dangling, turn.reason)
            if turn.ended is None and not turn.explicit and _is_complete(turn):
                self.facts.last = Last("complete", turn.begun, dangling)

    def _roll_back(self, turns: Any) -> None:
        count = turns if type(turns) is int and turns > 0 else 0
        self._close()
        self.facts.take_back(count)
        self.facts.last = None
        self._notice("rolled_back", f"the last {count} turns were taken back", turns=count)

    def _need_turn(self) -> Turn:
        if self._turn is None:
            self._turn = Turn()
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


def _is_complete(turn: Turn) -> bool:
    if turn.ended is None and not turn.explicit:
        return turn.answer_last  # an old file, which says nothing of ends
    return turn.ended == "complete" and turn.answered


def _both(known: Ending | None, told: Ending) -> Ending:
    """The output as the model was given it, with the status as the system gave it."""
    if known is None or told.outcome == "interrupted":
        return told
    code = known.exit_code if known.exit_code is not None else told.exit_code
    return Ending(known.outcome if known.outcome == "error" else told.outcome, told.output, code)
