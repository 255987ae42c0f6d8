"""Which events does a transcript contain? The same events that the driver writes for the stream."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from holdfast import timestamps
from holdfast.agents.claude import records, stream
from holdfast.agents.claude.records import QUIET, QUIET_SYSTEM, ClaudeRecord, parse_raw
from holdfast.agents.claude.transcript import TranscriptPiece
from holdfast.errors import BadInput
from holdfast.model.event import NewEvent, Origin
from holdfast.transcripts import jsonl

_STDOUT = re.compile(r"<local-command-std(?:out|err)>(.*)</local-command-std(?:out|err)>\s*", re.DOTALL)
_API_ERROR = re.compile(r'"type":"(\w+)_error"')
_API_ERRORS = {"api": "server_error"}


def system_event(record: ClaudeRecord, raw: bytes) -> NewEvent | None:
    """The event of a `system` record; None if it is not about the work."""
    if record.subtype in QUIET_SYSTEM:
        return None
    value = jsonl.parse(raw)
    if not isinstance(value, dict):
        return value
    if record.subtype == "api_error":
        return stream.system_event(_retry(value))
    content = value.get("content")
    match = _STDOUT.fullmatch(content) if isinstance(content, str) else None
    if record.subtype == "local_command" and match is not None:
        # The stream has it as text of the model «<synthetic>», with the same uuid and without markup.
        return jsonl.notice_event("synthetic", match[1].strip())
    return stream.system_event(value)


def _retry(value: dict[str, Any]) -> dict[str, Any]:
    """A stored `api_error` as the stream words it: «rate_limit» where the API says «rate_limit_error»."""
    error = value.get("error")
    fields = error if isinstance(error, dict) else {}
    kind = _API_ERROR.search(jsonl.text_field(fields, "message"))
    why = _API_ERRORS.get(kind[1], kind[1]) if kind else fields.get("formatted")
    return {
        "subtype": "api_retry",
        "error_status": fields.get("status") if isinstance(fields.get("status"), int) else None,
        "error": why if isinstance(why, str) else None,
        "attempt": value.get("retryAttempt"),
        "max_retries": value.get("maxRetries"),
    }


# --- Tool calls

HELPERS = frozenset({"Task", "Agent"})  # the tools that start a subagent

_KEPT = 4096  # how many ended calls are remembered at least


class OpenCall(msgspec.Struct, gc=False):
    """A call without a result."""

    name: str
    parent: str | None  # the call that started the subagent that made it
    prompt: str | None  # of the subagent that it starts


class TranscriptCalls:
    """The calls of one transcript; of ended calls only the latest are remembered."""

    def __init__(self) -> None:
        """Start without calls."""
        self.open: dict[str, OpenCall] = {}
        self._young: dict[str, None] = {}
        self._old: dict[str, None] = {}

    def start(self, call: str, name: str, parent: str | None, arguments: object) -> bool:
        """A call begins; False if it is already known."""
        if call in self.open or call in self._young or call in self._old:
            return False
        prompt = arguments.get("prompt") if name in HELPERS and isinstance(arguments, dict) else None
        self.open[call] = OpenCall(name, parent, prompt if isinstance(prompt, str) else None)
        return True

    def end(self, call: str) -> OpenCall:
        """A call has its result."""
        self._young[call] = None
        if len(self._young) > _KEPT:
            self._old, self._young = self._young, {}
        return self.open.pop(call, _UNKNOWN)

    def has_ended(self, call: str) -> bool:
        """Whether the call's result is already known."""
        return call in self._young or call in self._old

    def subagent_call(self, prompt: str | None = None) -> str | None:
        """The open call that started a subagent with this prompt; else the latest that started any."""
        match: str | None = None
        for call, started in self._helpers():
            match = call
            if prompt is not None and started.prompt == prompt:
                break
        return match

    def _helpers(self) -> Iterator[tuple[str, OpenCall]]:
        for call, started in self.open.items():
            if started.name in HELPERS:
                yield call, started


_UNKNOWN = OpenCall("", None, None)


# --- Events

AGENT = "claude"

_STAMP = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z", re.ASCII
)
_SIDES = 8192  # records of subagents in the same file whose call is remembered


class ClaudeEventBuilder:
    """Builds the events of one transcript from its pieces in logical order."""

    def __init__(self, native_id: str, answered: Callable[[str], bool], parent: str | None = None):
        """`answered`: whether a call has a result anywhere; `parent`: the call that started this subagent."""
        self.calls = TranscriptCalls()
        self.helpers: dict[str, str] = {}  # ended call -> the subagent that it started
        self.prompts: dict[str, str] = {}  # ended call -> the prompt of that subagent
        self._native_id = native_id if jsonl.storable_id(native_id) is not None else None
        self._answered = answered
        self._parent = parent
        self._sides: dict[str, str] = {}  # record of a subagent in the same file -> its call

    def on_piece(self, piece: TranscriptPiece) -> list[NewEvent]:
        """The events of one piece."""
        record = piece.record
        if record is None:
            assert piece.odd is not None
            return [self._odd(piece.odd)]
        kind = record.type
        if kind == "assistant":
            return self._assistant(record, piece.raw)
        if kind == "user":
            return self._user(record)
        if kind == "attachment":
            return self._attachment(record)
        if kind == "system":
            return self._system(record, piece)
        return [] if kind in QUIET else [self._unknown(record, piece)]

    def close(self) -> list[NewEvent]:
        """The end of the transcript: every open call has no result."""
        return [self._interrupted(call) for call in list(self.calls.open)]

    # --- Messages of the model

    def _assistant(self, record: ClaudeRecord, raw: bytes) -> list[NewEvent]:
        message = record.message
        if message is None:
            return [self._unknown(record, TranscriptPiece(0, raw, record))]
        content, parent = message.content, self._parent
        if record.is_sidechain and parent is None:
            parent = self._side(record)
        at = _at(record.timestamp)
        if type(content) is not list:
            content = [{"type": "text", "text": content}]
        events: list[NewEvent] = []
        for i, block in enumerate(content):
            if type(block) is not dict:
                continue
            kind = block.get("type")
            if kind == "text" or kind == "thinking":
                text = block.get(kind)
                if type(text) is str and text:
                    body = {"text": text} if parent is None else {"text": text, "parent": parent}
                    if record.error or record.is_api_error_message or message.model == "<synthetic>":
                        events.append(self._not_said(record, body, i, raw, at))
                        continue
                    word = "assistant" if kind == "text" else "thinking"
                    events.append(NewEvent(word, body, at, False, self._origin(record, i)))
            elif kind in stream.TOOL_USE_TYPES:
                events.append(self._called(record, block, i, parent, at, raw))
            elif type(block.get("tool_use_id")) is str:
                events.append(self._returned(record, block, i, at))
            elif kind != "redacted_thinking":
                events.append(self._odd_block(record, block, i, at))
        return events

    def _not_said(
        self, record: ClaudeRecord, body: dict[str, Any], i: int, raw: bytes, at: str | None
    ) -> NewEvent:
        """Text that the CLI attributes to the model."""
        kind = "notice"
        if record.error or record.is_api_error_message:
            kind, body["code"] = "error", "api_error"
            body["error"] = record.error if not _is_deep(raw) else None
        else:
            body["code"] = "synthetic"
        return NewEvent(kind, body, at, False, self._origin(record, i))

    def _called(
        self,
        record: ClaudeRecord,
        block: dict[str, Any],
        i: int,
        parent: str | None,
        at: str | None,
        raw: bytes,
    ) -> NewEvent:
        call, name, arguments = block.get("id"), block.get("name"), block.get("input")
        if type(call) is not str or type(name) is not str or _is_deep(raw):
            return self._odd_block(record, block, i, at)
        if not self.calls.start(call, name, parent, arguments):
            again = {"text": name, "code": "duplicate_call", "call": call}
            return NewEvent("notice", self._below(again), at, False, self._origin(record, i))
        body: dict[str, Any] = {"call": call, "name": name, "input": arguments}
        if parent is not None:
            body["parent"] = parent
        return NewEvent("tool_progress", body, at, False, self._named("call:" + call))

    # --- Messages to the model

    def _user(self, record: ClaudeRecord) -> list[NewEvent]:
        content = record.message.content if record.message is not None else None
        at = _at(record.timestamp)
        spoken = records.user_speaker(record)
        if spoken == "results":
            return self._results(record, content if type(content) is list else [], at)
        if self._parent is not None or (record.is_sidechain and self._side(record, content) is not None):
            return []  # a subagent's prompt; its call already holds it as input
        if content is None or content == []:
            return []
        prompt = NewEvent("user", {"text": stream.content_text(content)}, at, False, self._origin(record, 0))
        if spoken != "prompt":
            return [NewEvent("notice", {**prompt.body, "code": spoken}, at, False, prompt.origin)]
        return [*self._left_open(), prompt]

    def _results(self, record: ClaudeRecord, content: list[Any], at: str | None) -> list[NewEvent]:
        events: list[NewEvent] = []
        sub = self._parent is not None or bool(record.is_sidechain)
        if record.is_sidechain:
            self._side(record)
        for i, block in enumerate(content):
            if type(block) is not dict:
                continue
            text = block.get("text")
            if type(block.get("tool_use_id")) is str:
                events.append(self._returned(record, block, i, at))
            elif sub:
                continue
            elif type(text) is str:
                code = "interrupted" if text.startswith(stream.INTERRUPT_MARK) else "told"
                events.append(
                    NewEvent("notice", {"text": text, "code": code}, at, False, self._origin(record, i))
                )
            else:
                events.append(self._odd_block(record, block, i, at))
        return events

    def _returned(self, record: ClaudeRecord, block: dict[str, Any], i: int, at: str | None) -> NewEvent:
        call: str = block["tool_use_id"]
        output = stream.output(block.get("content"))
        if self.calls.has_ended(call):
            body = {"text": output, "code": "duplicate_result", "call": call}
            return NewEvent("notice", self._below(body), at, False, self._origin(record, i))
        began = self.calls.end(call)
        outcome = "ok"
        if block.get("is_error"):
            result = parse_raw(record.tool_use_result)
            stopped = stream.was_stopped({"tool_use_result": result}, block) or output.startswith(
                records.UNKNOWN
            )
            outcome = "interrupted" if stopped else "error"
        if began.name in HELPERS:
            helper = parse_raw(record.tool_use_result).get("agentId")
            if isinstance(helper, str):
                self.helpers[call] = helper
            if began.prompt is not None:
                self.prompts[call] = began.prompt
        body = {"call": call, "name": began.name, "outcome": outcome, "output": output}
        parent = began.parent or self._parent
        if parent is not None:
            body["parent"] = parent
        return NewEvent("tool_summary", body, at, False, self._named("result:" + call))

    def _attachment(self, record: ClaudeRecord) -> list[NewEvent]:
        queued = records.queued_prompt(record)
        if queued is None or self._parent is not None or record.is_sidechain:
            return []
        spoken, text = queued
        at, origin = _at(record.timestamp), self._origin(record, 0)
        if spoken == "prompt":
            return [NewEvent("user", {"text": text}, at, False, origin)]
        return [NewEvent("notice", {"text": text, "code": spoken}, at, False, origin)]

    # --- Records of the CLI

    def _system(self, record: ClaudeRecord, piece: TranscriptPiece) -> list[NewEvent]:
        event = system_event(record, piece.raw)
        return [] if event is None else [self._placed(event, record, piece)]

    def _unknown(self, record: ClaudeRecord, piece: TranscriptPiece) -> NewEvent:
        value = jsonl.parse(piece.raw)
        return self._placed(jsonl.unknown(value) if isinstance(value, dict) else value, record, piece)

    def _odd_block(self, record: ClaudeRecord, block: dict[str, Any], i: int, at: str | None) -> NewEvent:
        try:
            notice = jsonl.unknown(block)
        except BadInput:  # nested too deeply
            notice = jsonl.notice_event("unknown_record", f"a block of type {block.get('type')!s:.100}")
        return NewEvent(notice.kind, self._below(notice.body), at, False, self._origin(record, i))

    def _odd(self, odd: jsonl.JsonlLine) -> NewEvent:
        notice = jsonl.notice(odd, AGENT, self._native_id or "")
        return NewEvent(
            notice.kind, self._below(notice.body), None, False, notice.origin if self._native_id else None
        )

    def _placed(self, event: NewEvent, record: ClaudeRecord, piece: TranscriptPiece) -> NewEvent:
        origin = self._origin(record, 0) or self._at_byte(piece.offset)
        return NewEvent(event.kind, self._below(event.body), _at(record.timestamp), False, origin)

    def _below(self, body: dict[str, Any]) -> dict[str, Any]:
        return body if self._parent is None else {**body, "parent": self._parent}

    # --- Calls without a result

    def _left_open(self) -> list[NewEvent]:
        """A turn begins: end the calls that earlier turns left open, after everything said in them."""
        left = [call for call in self.calls.open if not self._answered(call)]
        return [self._interrupted(call) for call in left]

    def _interrupted(self, call: str) -> NewEvent:
        began = self.calls.end(call)
        if began.prompt is not None:
            self.prompts[call] = began.prompt
        body = {"call": call, "name": began.name, "outcome": "interrupted", "output": jsonl.UNKNOWN_OUTCOME}
        parent = began.parent or self._parent
        return NewEvent("tool_summary", body if parent is None else {**body, "parent": parent})

    # --- Subagents in the same file

    def _side(self, record: ClaudeRecord, prompt: Any = None) -> str | None:
        """The call that started this record's subagent (1.0 keeps subagents in the transcript itself)."""
        call = self._sides.get(record.parent_uuid) if record.parent_uuid is not None else None
        if call is None:
            text = stream.content_text(prompt) if prompt is not None else None
            call = self.calls.subagent_call(text) or record.uuid
        if call is not None and record.uuid is not None:
            self._sides[record.uuid] = call
            if len(self._sides) > _SIDES:
                del self._sides[next(iter(self._sides))]
        return call

    # --- Origins

    def _origin(self, record: ClaudeRecord, block: int) -> Origin | None:
        uuid = record.uuid
        if uuid is None:
            return None
        return self._named(uuid if block == 0 else f"{uuid}:{block}")

    def _at_byte(self, offset: int) -> Origin | None:
        """The origin of a record without an id; the files of subagents count their own bytes."""
        return self._named(f"byte:{offset}" if self._parent is None else f"{self._parent}:byte:{offset}")

    def _named(self, record_id: str) -> Origin | None:
        native_id = self._native_id
        if native_id is not None and 0 < len(record_id) < 200 and record_id.isprintable():
            return Origin(AGENT, native_id, record_id)
        return jsonl.origin(AGENT, native_id, record_id)


def _at(timestamp: str | None) -> str | None:
    if timestamp is not None and _STAMP.fullmatch(timestamp) is not None:
        return timestamp[:23] + "000Z"
    return timestamps.when_stamp(timestamp)


def _is_deep(raw: bytes) -> bool:
    """Whether a record may be nested more deeply than a store accepts."""
    if raw.count(b"[") + raw.count(b"{") <= jsonl.DEEPEST:
        return False
    return not isinstance(jsonl.parse(raw), dict)
