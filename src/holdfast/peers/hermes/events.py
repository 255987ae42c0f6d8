"""Messages as events, in the words that a runner would have written."""

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

_LONG = re.compile(r"(?=[A-Za-z]*\d)[0-9A-Za-z]{8,}")  # an id that is no counter (`call_1`)


class HermesEventBuilder:
    """One session's messages, one after the other, as events."""

    def __init__(self, native_id: str, results: Counter[str]):
        """`results`: how many results each call will have; a call that has none left is given up."""
        self.prompts: dict[str, list[float | None]] = {}
        self.dangling: list[dict[str, Any]] = []
        self.orphans: list[str] = []  # results whose call is nowhere
        self.doubled: list[str] = []  # results of a call that had one
        self._native_id = lines.plain(native_id)
        self._coming = Counter(results)
        self._open: dict[str, HermesToolCall] = {}
        self._ended: set[str] = set()
        self._records: Counter[str] = Counter()

    def message(self, told: HermesMessage) -> Iterator[NewEvent]:
        """What one message says."""
        at, record = values.stamp(told.at), self._record(told.record)
        if told.summary:
            yield self._event("notice", {"text": told.text, "code": "compacted"}, at, record)
        elif told.role == "tool":
            yield from self._result(told, at, record)
        elif told.role == "user" and told.raw.get("observed"):
            yield self._event("notice", {"text": told.text, "code": "observed"}, at, record)
        elif told.role == "user":
            yield from self._give_up()
            self.prompts.setdefault(told.text.strip(), []).append(told.at)
            yield self._event("user", {"text": told.text}, at, record)
        elif told.role == "assistant":
            yield from self._answer(told, at, record)
        elif told.role == "system" and told.text:
            yield self._event("notice", {"text": told.text, "code": "system"}, at, record)
        else:
            shown = lines.shown(values.storable(told.raw))
            yield self._event("notice", {"text": shown, "code": "unknown_record"}, at, record)

    def taken_back(self, count: int) -> NewEvent:
        """That the user took messages back; they are not told again."""
        what = "a message was" if count == 1 else f"{count:,} messages were"
        return NewEvent("notice", {"text": f"{what} taken back", "code": "undone", "messages": count})

    def shortened(self, why: str, generation: str, count: int) -> NewEvent:
        """That the conversation was cleared or cut on purpose."""
        text = {"clear": "the conversation was cleared", "compress": "the conversation was compacted by hand"}
        body = {"text": text.get(why, "messages were taken back"), "code": _SHORTER[why], "messages": count}
        return self._event("notice", body, None, f"{why}:{generation}" if generation else "")

    def turn(
        self, turn: journal.JournaledTurn, said: bool, run: journal.JournaledRun | None
    ) -> Iterator[NewEvent]:
        """A turn that never came into the messages: its prompt, and what its run had told."""
        if turn.prompt and not said:
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

    def end(self) -> Iterator[NewEvent]:
        """An end for each call that has none."""
        self._coming.clear()
        yield from self._give_up()

    def _answer(self, told: HermesMessage, at: str | None, record: str) -> Iterator[NewEvent]:
        if told.thinking:
            yield self._event("thinking", {"text": told.thinking}, at, record and f"{record}:thinking")
        if told.marker and told.marker != "partial":
            kind = "notice" if told.marker in STOPPED else "error"
            body: dict[str, Any] = {"text": told.text, "code": told.marker}
            if cause := values.identifier(told.raw.get("interruption_cause")):
                body["cause"] = cause
            yield self._event(kind, body, at, record)
        elif told.text:
            body = {"text": told.text, "partial": True} if told.marker else {"text": told.text}
            yield self._event("assistant", body, at, record)
        for n, call in enumerate(told.calls):
            yield from self._call(call, at, record and f"{record}:{n}")

    def _call(self, call: HermesToolCall, at: str | None, record: str) -> Iterator[NewEvent]:
        own = call.id or record
        if own in self._open:
            if _is_unique(own):
                return
            yield self._interrupted(own)
        elif own in self._ended and _is_unique(own):
            return
        name = f"call:{own}" if _is_unique(own) else record and f"{record}:call"
        yield self._event("tool_progress", {"call": own, "name": call.name, "input": call.input}, at, name)
        self._open[own] = call
        if call.done and not self._coming[own]:
            yield self._summary(
                own, "ok" if call.ok else "error", call.output or "", at, record and f"{record}:result"
            )

    def _result(self, told: HermesMessage, at: str | None, record: str) -> Iterator[NewEvent]:
        own = told.result_of or ""
        self._coming[own] -= own in self._coming
        if not own or own not in self._open:
            if own in self._ended:
                self.doubled.append(own)
                return
            self.orphans.append(own)
            self._open[own] = HermesToolCall(own, told.tool, {})
        yield self._summary(own, outcome(told), told.text, at, record, told.tool)

    def _summary(
        self, own: str, how: str, output: str, at: str | None, record: str, tool: str = ""
    ) -> NewEvent:
        call = self._open.pop(own)
        self._ended.add(own)
        body = {"call": own, "name": call.name or tool, "outcome": how, "output": output}
        return self._event("tool_summary", body, at, f"result:{own}" if _is_unique(own) else record)

    def _give_up(self) -> Iterator[NewEvent]:
        """Calls that no result will come for any more."""
        for own in [own for own in self._open if not self._coming[own]]:
            yield self._interrupted(own)

    def _interrupted(self, own: str) -> NewEvent:
        call = self._open.pop(own)
        self._ended.add(own)
        self.dangling.append({"call": own, "name": call.name, "input": call.input})
        body = {"call": own, "name": call.name, "outcome": "interrupted", "output": lines.UNKNOWN_OUTCOME}
        return NewEvent("tool_summary", body)

    def _record(self, record: str) -> str:
        """A record's name; two that have one are numbered."""
        self._records[record] += 1
        count = self._records[record]
        return record if count == 1 else f"{record}:{count}"

    def _event(self, kind: str, body: dict[str, Any], at: str | None, record: str) -> NewEvent:
        origin: Origin | None = lines.origin(AGENT, self._native_id, record)
        return NewEvent(kind, body, at, origin=origin)


def outcome(told: HermesMessage) -> str:
    """How a tool's run ended, by the agent's own rules; its result does not say."""
    said = told.text
    if told.disposition == "unknown" or said.startswith(
        ("[Tool execution cancelled", "[Tool execution skipped")
    ):
        return "interrupted"
    start = said[:4000].lower()
    if "[command interrupted]" in said[-4000:].lower() or "[command interrupted]" in start:
        return "interrupted"
    value = _object(said)
    if value is None:
        return "error" if said.startswith("Error") else "ok"
    code = value.get("exit_code")
    if type(code) is int and code != 0:
        return "interrupted" if code in (130, -1) and "interrupt" in said.lower() else "error"
    failed = value.get("error") or (value.get("message") if value.get("success") is False else None)
    return "error" if failed else "ok"


def _object(said: str) -> dict[str, Any] | None:
    if not said.lstrip().startswith("{"):
        return None
    try:
        value = values.parse(said)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _is_unique(own: str) -> bool:
    return _LONG.search(own) is not None


_SHORTER = {"clear": "cleared", "undo": "undone", "compress": "compacted"}
