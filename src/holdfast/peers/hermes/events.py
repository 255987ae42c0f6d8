"""Messages as events, in the form that a live run records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from holdfast.model.event import NewEvent, Origin
from holdfast.peers.hermes import journal, values
from holdfast.peers.hermes.messages import HermesMessage, HermesToolCall
from holdfast.transcripts import jsonl as lines

AGENT = "hermes"
STOPPED = frozenset({"interrupted", "cancelled", "partial"})

_LONG = re.compile(r"(?=[A-Za-z]*\d)[0-9A-Za-z]{8,}")  # an id that is not a counter (`call_1`)


class HermesEventBuilder:
    """Turns the messages of one session into events."""

    def __init__(self, native_id: str, results: Counter[str]):
        """`results`: how many results each call has; a call without further results ends as interrupted."""
        self.prompts: dict[str, list[float | None]] = {}
        self.dangling: list[dict[str, Any]] = []
        self.orphans: list[str] = []  # results without a call
        self.doubled: list[str] = []  # further results of one call
        self._native_id = lines.storable_id(native_id)
        self._coming = Counter(results)
        self._open: dict[str, HermesToolCall] = {}
        self._ended: set[str] = set()
        self._records: Counter[str] = Counter()

    def on_message(self, message: HermesMessage) -> Iterator[NewEvent]:
        """The events of one message."""
        at, record = values.stamp(message.at), self._record(message.record)
        if message.summary:
            yield self._event("notice", {"text": message.text, "code": "compacted"}, at, record)
        elif message.role == "tool":
            yield from self._result(message, at, record)
        elif message.role == "user" and message.raw.get("observed"):
            yield self._event("notice", {"text": message.text, "code": "observed"}, at, record)
        elif message.role == "user":
            yield from self._give_up()
            self.prompts.setdefault(message.text.strip(), []).append(message.at)
            yield self._event("user", {"text": message.text}, at, record)
        elif message.role == "assistant":
            yield from self._answer(message, at, record)
        elif message.role == "system" and message.text:
            yield self._event("notice", {"text": message.text, "code": "system"}, at, record)
        else:
            text = lines.preview(values.storable(message.raw))
            yield self._event("notice", {"text": text, "code": "unknown_record"}, at, record)

    def undone(self, count: int) -> NewEvent:
        """A notice that the user undid messages, which are not replayed."""
        text = "the user undid 1 message" if count == 1 else f"the user undid {count:,} messages"
        return NewEvent("notice", {"text": text, "code": "undone", "messages": count})

    def shortened(self, why: str, generation: str, count: int) -> NewEvent:
        """A notice that the conversation was cleared or shortened on purpose."""
        text = {
            "clear": "the user cleared the conversation",
            "compress": "the user compacted the conversation",
        }
        body = {"text": text.get(why, "the user undid messages"), "code": _SHORTER[why], "messages": count}
        return self._event("notice", body, None, f"{why}:{generation}" if generation else "")

    def turn(
        self, turn: journal.JournaledTurn, has_prompt: bool, run: journal.JournaledRun | None
    ) -> Iterator[NewEvent]:
        """The events of a turn that never reached the messages: its prompt and its recorded output."""
        if turn.prompt and not has_prompt:
            yield from self._give_up()
            yield self._event(
                "user", {"text": turn.prompt}, values.stamp(turn.at), self._record(f"turn:{turn.id}")
            )
        steps = run.steps if run is not None else []
        cut_off = len(steps) - 1 if run is not None and run.ended != "completed" else -1
        for n, step in enumerate(steps):
            at, record = values.stamp(step.at), self._record(f"run:{turn.stream}:{step.seq}")
            if step.call is not None:
                yield from self._call(step.call, at, record)
            else:
                body = {"text": step.text, "partial": True} if n == cut_off else {"text": step.text}
                yield self._event(step.kind, body, at, record)

    def finish(self) -> Iterator[NewEvent]:
        """End each call that has no result."""
        self._coming.clear()
        yield from self._give_up()

    def _answer(self, message: HermesMessage, at: str | None, record: str) -> Iterator[NewEvent]:
        if message.thinking:
            yield self._event("thinking", {"text": message.thinking}, at, record and f"{record}:thinking")
        if message.marker and message.marker != "partial":
            kind = "notice" if message.marker in STOPPED else "error"
            body: dict[str, Any] = {"text": message.text, "code": message.marker}
            if cause := values.identifier(message.raw.get("interruption_cause")):
                body["cause"] = cause
            yield self._event(kind, body, at, record)
        elif message.text:
            body = {"text": message.text, "partial": True} if message.marker else {"text": message.text}
            yield self._event("assistant", body, at, record)
        for n, call in enumerate(message.calls):
            yield from self._call(call, at, record and f"{record}:{n}")

    def _call(self, call: HermesToolCall, at: str | None, record: str) -> Iterator[NewEvent]:
        call_id = call.id or record
        if call_id in self._open:
            if _is_unique(call_id):
                return
            yield self._interrupted(call_id)
        elif call_id in self._ended and _is_unique(call_id):
            return
        name = f"call:{call_id}" if _is_unique(call_id) else record and f"{record}:call"
        yield self._event(
            "tool_progress", {"call": call_id, "name": call.name, "input": call.input}, at, name
        )
        self._open[call_id] = call
        if call.done and not self._coming[call_id]:
            yield self._summary(
                call_id, "ok" if call.ok else "error", call.output or "", at, record and f"{record}:result"
            )

    def _result(self, message: HermesMessage, at: str | None, record: str) -> Iterator[NewEvent]:
        call_id = message.result_of or ""
        self._coming[call_id] -= call_id in self._coming
        if not call_id or call_id not in self._open:
            if call_id in self._ended:
                self.doubled.append(call_id)
                return
            self.orphans.append(call_id)
            self._open[call_id] = HermesToolCall(call_id, message.tool, {})
        yield self._summary(call_id, outcome(message), message.text, at, record, message.tool)

    def _summary(
        self, call_id: str, how: str, output: str, at: str | None, record: str, tool: str = ""
    ) -> NewEvent:
        call = self._open.pop(call_id)
        self._ended.add(call_id)
        body = {"call": call_id, "name": call.name or tool, "outcome": how, "output": output}
        return self._event("tool_summary", body, at, f"result:{call_id}" if _is_unique(call_id) else record)

    def _give_up(self) -> Iterator[NewEvent]:
        """End the calls that get no result any more."""
        for call_id in [call_id for call_id in self._open if not self._coming[call_id]]:
            yield self._interrupted(call_id)

    def _interrupted(self, call_id: str) -> NewEvent:
        call = self._open.pop(call_id)
        self._ended.add(call_id)
        self.dangling.append({"call": call_id, "name": call.name, "input": call.input})
        body = {"call": call_id, "name": call.name, "outcome": "interrupted", "output": lines.UNKNOWN_OUTCOME}
        return NewEvent("tool_summary", body)

    def _record(self, record: str) -> str:
        """A unique record name; repeated names are numbered."""
        self._records[record] += 1
        count = self._records[record]
        return record if count == 1 else f"{record}:{count}"

    def _event(self, kind: str, body: dict[str, Any], at: str | None, record: str) -> NewEvent:
        origin: Origin | None = lines.origin(AGENT, self._native_id, record)
        return NewEvent(kind, body, at, origin=origin)


def outcome(result: HermesMessage) -> str:
    """How a tool's run ended, by the agent's own rules; the result has no status."""
    text = result.text
    if result.disposition == "unknown" or text.startswith(
        ("[Tool execution cancelled", "[Tool execution skipped")
    ):
        return "interrupted"
    start = text[:4000].lower()
    if "[command interrupted]" in text[-4000:].lower() or "[command interrupted]" in start:
        return "interrupted"
    value = _object(text)
    if value is None:
        return "error" if text.startswith("Error") else "ok"
    code = value.get("exit_code")
    if type(code) is int and code != 0:
        return "interrupted" if code in (130, -1) and "interrupt" in text.lower() else "error"
    failed = value.get("error") or (value.get("message") if value.get("success") is False else None)
    return "error" if failed else "ok"


def _object(text: str) -> dict[str, Any] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = values.parse(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _is_unique(call_id: str) -> bool:
    return _LONG.search(call_id) is not None


_SHORTER = {"clear": "cleared", "undo": "undone", "compress": "compacted"}
