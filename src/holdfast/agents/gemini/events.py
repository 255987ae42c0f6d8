"""Which events does a chat file contain? Each message is read again from its position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from holdfast.agents.gemini import messages
from holdfast.agents.gemini.log import LogMessage, MessageRef, MutationLog
from holdfast.agents.gemini.messages import GeminiToolCall, GeminiToolResponse
from holdfast.model.event import NewEvent, Origin
from holdfast.transcripts import jsonl
from holdfast.transcripts.jsonl import JsonlLine

UNKNOWN = "The outcome is unknown: the history holds no result."

_WIPED = "a reset removed the messages above from the conversation; Gemini no longer knows them"
_COMPACTED = "a summary replaced the messages above"


class PieceReader:
    """Reads pieces of a file again; the last list is cached, because its messages are read in a row."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._list: tuple[int, list[Any]] | None = None
        self._one: tuple[int, dict[str, Any]] = (-1, {})

    def raw(self, ref: MessageRef) -> bytes:
        """The bytes of a piece, up to the length limit of a line."""
        self._file.seek(ref.offset)
        return self._file.read(min(ref.size, jsonl.LONGEST))

    def value(self, ref: MessageRef) -> dict[str, Any]:
        """The object in a piece; empty if the file has changed since."""
        value = jsonl.parse(self.raw(ref))
        return value if isinstance(value, dict) else {}

    def message(self, ref: MessageRef) -> dict[str, Any]:
        """The message at a position; empty if the file has changed since."""
        if ref.index < 0:
            if self._one[0] != ref.offset:
                self._one = (ref.offset, self.value(ref))
            return self._one[1]
        if self._list is None or self._list[0] != ref.offset:
            value = self.value(ref)
            changed = value.get("$set")
            listed = (changed if isinstance(changed, dict) else value).get("messages")
            self._list = (ref.offset, listed if isinstance(listed, list) else [])
        listed = self._list[1]
        message = listed[ref.index] if ref.index < len(listed) else None
        return message if isinstance(message, dict) else {}


class GeminiEventBuilder:
    """Builds the events of one log."""

    def __init__(self, log: MutationLog, file: BinaryIO, agent: str, native_id: str):
        self._log = log
        self._pieces = PieceReader(file)
        self._agent = agent
        self._native_id = native_id
        self._resets = set(log.lost.values())  # resets that still count
        self._begun: set[str] = set()  # call ids
        self._open: list[GeminiToolCall] = []  # open calls of the turn
        self._late: list[
            tuple[int, GeminiToolCall]
        ] = []  # reported in an earlier message after later text was already emitted

    def events(self) -> Iterator[NewEvent]:
        """Everything that was ever recorded and not rewound."""
        for entry in self._log.entries.values():
            yield from self._told_before(entry.first)
            if entry.kind == "user":
                yield from self._close()
            yield from self._entry(entry)
        yield from self._told_before(None)
        yield from self._close()
        if self._log.left_out:
            text = f"{self._log.left_out:,} more lines could not be read"
            yield NewEvent("notice", {"text": text, "code": jsonl.BAD, "count": self._log.left_out})

    def calls(self, entry: LogMessage) -> list[GeminiToolCall]:
        """The calls of a message, with their results from anywhere in the file."""
        if entry.calls_ref is None:
            return []
        message = self._pieces.message(entry.calls_ref)
        calls = messages.completed_calls(message) if entry.has_results else messages.requested_calls(message)
        return [call if call.outcome is not None else self._with_result(call) for call in calls]

    def _entry(self, entry: LogMessage) -> Iterator[NewEvent]:
        if entry.kind in ("odd", "unknown", "reset"):
            yield from self._stand_in(entry)
        elif entry.kind == "result":
            yield from self._results(entry)
        elif entry.kind == "synthetic":
            yield self._new("notice", {"text": messages.INTERRUPTED, "code": "synthetic_reply"}, entry)
        elif entry.kind in ("info", "warning", "error"):
            yield from self._program(entry)
        elif entry.kind != "context":
            yield from self._texts(entry)

    def _texts(self, entry: LogMessage) -> Iterator[NewEvent]:
        if entry.thoughts_ref is not None:
            thought = messages.thoughts(self._pieces.message(entry.thoughts_ref))
            if thought.strip():
                yield self._new("thinking", {"text": thought}, entry, ":thought")
        if entry.has_text:
            text = messages.text(self._pieces.message(entry.ref))
            if text.strip():
                yield self._new("user" if entry.kind == "user" else "assistant", {"text": text}, entry)
        calls = [call for call in self.calls(entry) if call.id not in self._begun]
        now = [call for call in calls if self._log.begun.get(call.id, 0) <= entry.first]
        yield from self._called(now, entry.at)
        later = [(self._log.begun[call.id], call) for call in calls if call not in now]
        self._late = sorted(self._late + later, key=lambda waiting: waiting[0])

    def _told_before(self, offset: int | None) -> Iterator[NewEvent]:
        """Over ACP Gemini adds all calls of a turn to one message: emit each where it was added."""
        while self._late and (offset is None or self._late[0][0] < offset):
            here = self._late[0][0]
            calls = [call for at, call in self._late if at == here]
            self._late = self._late[len(calls) :]
            yield from self._called(calls, calls[0].at)

    def _called(self, calls: list[GeminiToolCall], at: str | None) -> Iterator[NewEvent]:
        for call in calls:
            self._begun.add(call.id)
            body = {"call": call.id, "name": call.name, "input": call.input}
            yield NewEvent("tool_progress", body, at=at, origin=self._origin(f"call:{call.id}"))
        for call in calls:
            if call.outcome is None:
                self._open.append(call)
            else:
                yield self._summary(call, at)

    def _results(self, entry: LogMessage) -> Iterator[NewEvent]:
        """Results without a call; the others are emitted with their calls."""
        for response in messages.responses(self._pieces.message(entry.ref)):
            if response.id and response.id not in self._begun:
                self._begun.add(response.id)
                call = GeminiToolCall(response.id, response.name, None, _outcome(response), response.output)
                yield self._summary(call, entry.at)

    def _program(self, entry: LogMessage) -> Iterator[NewEvent]:
        text = messages.text(self._pieces.message(entry.ref))
        kind = "error" if entry.kind == "error" else "notice"
        code = "agent_error" if entry.kind == "error" else f"agent_{entry.kind}"
        yield self._new(kind, {"text": text, "code": code}, entry)

    def _stand_in(self, entry: LogMessage) -> Iterator[NewEvent]:
        if entry.kind == "reset":
            if entry.id in self._resets:
                compacted = entry.id in self._log.compacted
                code, text = ("compacted", _COMPACTED) if compacted else ("history_wiped", _WIPED)
                yield self._new("notice", {"text": text, "code": code}, entry)
            return
        if entry.kind == "unknown":
            body = jsonl.unknown(self._pieces.message(entry.ref)).body
            yield self._new("notice", body, entry)
            return
        raw = self._pieces.raw(entry.ref)
        odd = jsonl.parse(raw) if entry.ref.size <= jsonl.LONGEST else None
        notice = (
            odd if isinstance(odd, NewEvent) else jsonl.notice_event("too_long", "", bytes=entry.ref.size)
        )
        line = JsonlLine(
            number=entry.line, offset=entry.ref.offset, size=entry.ref.size, problem=entry.problem, odd=notice
        )
        yield jsonl.notice(line, self._agent, self._native_id)

    def _close(self) -> Iterator[NewEvent]:
        for call in self._open:
            body = {"call": call.id, "name": call.name, "outcome": "interrupted", "output": UNKNOWN}
            yield NewEvent("tool_summary", body)
        self._open = []

    def _with_result(self, call: GeminiToolCall) -> GeminiToolCall:
        ref = self._log.results.get(call.id) or self._log.results.get(f"name:{call.name}")
        if ref is None:
            return call
        for response in messages.responses(self._pieces.message(ref)):
            if response.id == call.id or (not response.id and response.name == call.name):
                return GeminiToolCall(call.id, call.name, call.input, _outcome(response), response.output)
        return call

    def _summary(self, call: GeminiToolCall, at: str | None) -> NewEvent:
        body = {"call": call.id, "name": call.name, "outcome": call.outcome, "output": call.output}
        return NewEvent("tool_summary", body, at=call.at or at, origin=self._origin(f"result:{call.id}"))

    def _new(self, kind: str, body: dict[str, Any], entry: LogMessage, part: str = "") -> NewEvent:
        named = f"byte:{entry.ref.offset}" if entry.id.startswith("\0") else f"message:{entry.id}{part}"
        return NewEvent(kind, body, at=entry.at, origin=self._origin(named))

    def _origin(self, record_id: str) -> Origin | None:
        return jsonl.origin(self._agent, self._native_id, record_id)


def _outcome(response: GeminiToolResponse) -> str:
    return "error" if response.failed else "ok"
