"""What does an agent-transcript hold? A display copy without ids, times or (in JSONL) results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.acp.content import block_text
from holdfast.agents.cursor.checkpoints import parts, user_text
from holdfast.agents.cursor.sdk_runs import AGENT
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import TranscriptProblem

Item = NewEvent | TranscriptProblem
NOT_KEPT = "The transcript does not keep results."
_SIDES = {"user:": "user", "assistant:": "assistant"}
_STARTS = (b'{"role"', b'{"type":"turn_ended"')
_MARKS = ("[Thinking]", "[Tool call]", "[Tool result]")


def read_transcript(path: str, native_id: str) -> Iterator[Item]:
    """The events of a transcript, with problems where they occur."""
    yield TranscriptProblem(
        "missing_store", "only a display copy is left; it cannot be resumed", {"path": path}
    )
    yield from (
        _TextTranscript(path, native_id).events()
        if path.endswith(".txt")
        else _JsonlTranscript(path, native_id).events()
    )


class _JsonlTranscript:
    """A transcript in JSONL."""

    def __init__(self, path: str, native_id: str):
        self._path = path
        self._native_id = native_id
        self._open: dict[str, str] = {}  # calls that are not followed by text yet

    def events(self) -> Iterator[Item]:
        try:
            for line in jsonl.lines(self._path, _STARTS):
                if line.problem is not None:
                    evidence = {"line": line.number, "byte": line.offset}
                    yield TranscriptProblem(line.problem, "a line of the transcript is damaged", evidence)
                if line.value is None:
                    yield jsonl.notice(line, AGENT, self._native_id)
                else:
                    yield from self._on_record(line.value, f"line:{line.number}")
        except OSError as problem:
            yield TranscriptProblem(
                "store_damaged", f"it cannot be read: {problem.strerror}", {"path": self._path}
            )
        yield from self._end_calls("interrupted", jsonl.UNKNOWN_OUTCOME)

    def _on_record(self, record: dict[str, Any], name: str) -> Iterator[NewEvent]:
        kind, role, message = (
            jsonl.text_field(record, "type"),
            jsonl.text_field(record, "role"),
            record.get("message"),
        )
        if role in ("user", "assistant") and isinstance(message, dict):
            yield from self._end_calls("ok", NOT_KEPT)
            for number, part in enumerate(parts(message)):
                yield from self._part(role, part, f"{name}:{number}")
        elif kind == "turn_ended":
            yield from self._turn_end_calls(record, name)
        elif kind == "metadata":
            return
        else:
            yield self._event("notice", jsonl.unknown(record).body, name)

    def _part(self, role: str, part: dict[str, Any], name: str) -> Iterator[NewEvent]:
        kind = jsonl.text_field(part, "type")
        if kind == "tool_use":
            call, tool = f"{self._native_id}:{name}", jsonl.text_field(part, "name") or "tool"
            self._open[call] = tool
            yield self._event(
                "tool_progress", {"call": call, "name": tool, "input": part.get("input") or {}}, name
            )
            return
        text = block_text(part)
        if role == "user":
            text = user_text(text)
        if text:
            yield self._event(role, {"text": text}, name)

    def _turn_end_calls(self, record: dict[str, Any], name: str) -> Iterator[NewEvent]:
        status = jsonl.text_field(record, "status")
        if status == "success":
            yield from self._end_calls("ok", NOT_KEPT)
            return
        error = record.get("error")
        why = (
            error
            if isinstance(error, str)
            else jsonl.text_field(error, "message")
            if isinstance(error, dict)
            else ""
        )
        if status == "error":
            yield self._event(
                "error", {"text": why or "the turn ended in an error", "code": "run_error"}, name
            )
        elif status == "aborted":
            yield self._event("notice", {"text": why or "the turn was canceled", "code": "cancelled"}, name)
        else:
            yield self._event("notice", jsonl.unknown(record).body, name)
        yield from self._end_calls("interrupted", jsonl.UNKNOWN_OUTCOME)

    def _end_calls(self, outcome: str, output: str) -> Iterator[NewEvent]:
        for call, name in self._open.items():
            body: dict[str, Any] = {"call": call, "name": name, "outcome": outcome, "output": output}
            if outcome == "ok":
                body["kept"] = False
            origin = jsonl.origin(AGENT, self._native_id, f"{call}:end") if outcome == "ok" else None
            yield NewEvent("tool_summary", body, origin=origin)
        self._open = {}

    def _event(self, kind: str, body: dict[str, Any], name: str) -> NewEvent:
        return NewEvent(kind, body, origin=jsonl.origin(AGENT, self._native_id, name))


class _TextTranscript:
    """A transcript in the older format: plain text with markers."""

    def __init__(self, path: str, native_id: str):
        self._path = path
        self._native_id = native_id
        self._side = ""
        self._mark = ""
        self._name = ""  # the tool name in the marker
        self._lines: list[str] = []
        self._start = 0
        self._size = 0
        self._open: list[tuple[str, str]] = []

    def events(self) -> Iterator[Item]:
        try:
            with open(self._path, "rb") as file:
                for number, raw in enumerate(iter(lambda: file.readline(jsonl.LONGEST), b"")):
                    yield from self._on_record(raw.decode(errors="replace").rstrip("\r\n"), number)
        except OSError as problem:
            yield TranscriptProblem(
                "store_damaged", f"it cannot be read: {problem.strerror}", {"path": self._path}
            )
        yield from self._flush()
        for call, name in self._open:
            body = {"call": call, "name": name, "outcome": "interrupted", "output": jsonl.UNKNOWN_OUTCOME}
            yield NewEvent("tool_summary", body)

    def _on_record(self, text: str, number: int) -> Iterator[NewEvent]:
        mark = next((m for m in _MARKS if text.startswith(m)), "") if self._side == "assistant" else ""
        if text in _SIDES or mark:
            yield from self._flush()
            self._side, self._mark, self._start = _SIDES.get(text, self._side), mark, number
            rest = text[len(mark) :].strip() if mark else ""
            self._name = rest or "tool"
            if mark == "[Thinking]" and rest:
                self._lines.append(rest)
            return
        self._size += len(text)
        if self._size <= jsonl.LONGEST:
            self._lines.append(text)

    def _flush(self) -> Iterator[NewEvent]:
        text, side, mark, name = (
            "\n".join(self._lines).strip("\n"),
            self._side,
            self._mark,
            f"line:{self._start}",
        )
        self._lines, self._size = [], 0
        if mark == "[Tool call]":
            call = f"{self._native_id}:{name}"
            self._open.append((call, self._name))
            body = {"call": call, "name": self._name, "input": {"text": text} if text else {}}
            yield self._event("tool_progress", body, name)
        elif mark == "[Tool result]":
            open_call = next(
                (o for o in self._open if o[1] == self._name), self._open[0] if self._open else None
            )
            if open_call is None:
                yield self._event("notice", {"text": text, "code": "orphan_result"}, name)
                return
            self._open.remove(open_call)
            body = {"call": open_call[0], "name": open_call[1], "outcome": "ok", "output": text}
            yield self._event("tool_summary", body, name)
        elif side and (text := user_text(text) if side == "user" else text):
            yield self._event("thinking" if mark else side, {"text": text}, name)
        elif not side and text:
            yield self._event("notice", {"text": text[: jsonl.SHOWN], "code": "unknown_record"}, name)

    def _event(self, kind: str, body: dict[str, Any], name: str) -> NewEvent:
        return NewEvent(kind, body, origin=jsonl.origin(AGENT, self._native_id, name))
