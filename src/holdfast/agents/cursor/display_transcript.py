"""Agent-transcripts: a display copy of a conversation, without ids, times or (in JSONL) results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.acp.content import block_text
from holdfast.agents.cursor.checkpoints import parts, said
from holdfast.agents.cursor.sdk_runs import AGENT
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl
from holdfast.transcripts import jsonl as lines
from holdfast.transcripts.reader import TranscriptProblem

Item = NewEvent | TranscriptProblem
NOT_KEPT = "The transcript does not keep results."
_SIDES = {"user:": "user", "assistant:": "assistant"}
_STARTS = (b'{"role"', b'{"type":"turn_ended"')
_MARKS = ("[Thinking]", "[Tool call]", "[Tool result]")


def story(path: str, native_id: str) -> Iterator[Item]:
    """The events of a transcript, and what is wrong in its place."""
    yield TranscriptProblem(
        "missing_store", "only a copy for display is left; nothing can be resumed from it", {"path": path}
    )
    yield from (
        _TextTranscript(path, native_id).story()
        if path.endswith(".txt")
        else _JsonlTranscript(path, native_id).story()
    )


class _JsonlTranscript:
    """A transcript in JSONL."""

    def __init__(self, path: str, native_id: str):
        self._path = path
        self._native_id = native_id
        self._open: dict[str, str] = {}  # calls after which nothing was said yet

    def story(self) -> Iterator[Item]:
        try:
            for line in jsonl.lines(self._path, _STARTS):
                if line.problem is not None:
                    evidence = {"line": line.number, "byte": line.offset}
                    yield TranscriptProblem(line.problem, "a line of the transcript is damaged", evidence)
                if line.value is None:
                    yield jsonl.notice(line, AGENT, self._native_id)
                else:
                    yield from self._hear(line.value, f"line:{line.number}")
        except OSError as problem:
            yield TranscriptProblem(
                "store_damaged", f"it cannot be read: {problem.strerror}", {"path": self._path}
            )
        yield from self._ended("interrupted", lines.UNKNOWN_OUTCOME)

    def _hear(self, record: dict[str, Any], name: str) -> Iterator[NewEvent]:
        kind, role, message = lines.word(record, "type"), lines.word(record, "role"), record.get("message")
        if role in ("user", "assistant") and isinstance(message, dict):
            yield from self._ended("ok", NOT_KEPT)
            for number, part in enumerate(parts(message)):
                yield from self._part(role, part, f"{name}:{number}")
        elif kind == "turn_ended":
            yield from self._turn_ended(record, name)
        elif kind == "metadata":
            return
        else:
            yield self._event("notice", lines.unknown(record).body, name)

    def _part(self, role: str, part: dict[str, Any], name: str) -> Iterator[NewEvent]:
        kind = lines.word(part, "type")
        if kind == "tool_use":
            call, tool = f"{self._native_id}:{name}", lines.word(part, "name") or "tool"
            self._open[call] = tool
            yield self._event(
                "tool_progress", {"call": call, "name": tool, "input": part.get("input") or {}}, name
            )
            return
        text = block_text(part)
        if role == "user":
            text = said(text)
        if text:
            yield self._event(role, {"text": text}, name)

    def _turn_ended(self, record: dict[str, Any], name: str) -> Iterator[NewEvent]:
        status = lines.word(record, "status")
        if status == "success":
            yield from self._ended("ok", NOT_KEPT)
            return
        told = record.get("error")
        why = told if isinstance(told, str) else lines.word(told, "message") if isinstance(told, dict) else ""
        if status == "error":
            yield self._event(
                "error", {"text": why or "the turn ended in an error", "code": "run_error"}, name
            )
        elif status == "aborted":
            yield self._event("notice", {"text": why or "the turn was cancelled", "code": "cancelled"}, name)
        else:
            yield self._event("notice", lines.unknown(record).body, name)
        yield from self._ended("interrupted", lines.UNKNOWN_OUTCOME)

    def _ended(self, outcome: str, output: str) -> Iterator[NewEvent]:
        for call, name in self._open.items():
            body: dict[str, Any] = {"call": call, "name": name, "outcome": outcome, "output": output}
            if outcome == "ok":
                body["kept"] = False
            origin = lines.origin(AGENT, self._native_id, f"{call}:end") if outcome == "ok" else None
            yield NewEvent("tool_summary", body, origin=origin)
        self._open = {}

    def _event(self, kind: str, body: dict[str, Any], name: str) -> NewEvent:
        return NewEvent(kind, body, origin=lines.origin(AGENT, self._native_id, name))


class _TextTranscript:
    """A transcript of the older kind: plain text with marks."""

    def __init__(self, path: str, native_id: str):
        self._path = path
        self._native_id = native_id
        self._side = ""
        self._mark = ""
        self._name = ""  # of the tool that the mark tells
        self._lines: list[str] = []
        self._start = 0
        self._size = 0
        self._open: list[tuple[str, str]] = []

    def story(self) -> Iterator[Item]:
        try:
            with open(self._path, "rb") as file:
                for number, raw in enumerate(iter(lambda: file.readline(lines.LONGEST), b"")):
                    yield from self._hear(raw.decode(errors="replace").rstrip("\r\n"), number)
        except OSError as problem:
            yield TranscriptProblem(
                "store_damaged", f"it cannot be read: {problem.strerror}", {"path": self._path}
            )
        yield from self._flush()
        for call, name in self._open:
            body = {"call": call, "name": name, "outcome": "interrupted", "output": lines.UNKNOWN_OUTCOME}
            yield NewEvent("tool_summary", body)

    def _hear(self, text: str, number: int) -> Iterator[NewEvent]:
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
        if self._size <= lines.LONGEST:
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
            found = next((o for o in self._open if o[1] == self._name), self._open[0] if self._open else None)
            if found is None:
                yield self._event("notice", {"text": text, "code": "orphan_result"}, name)
                return
            self._open.remove(found)
            body = {"call": found[0], "name": found[1], "outcome": "ok", "output": text}
            yield self._event("tool_summary", body, name)
        elif side and (text := said(text) if side == "user" else text):
            yield self._event("thinking" if mark else side, {"text": text}, name)
        elif not side and text:
            yield self._event("notice", {"text": text[: lines.SHOWN], "code": "unknown_record"}, name)

    def _event(self, kind: str, body: dict[str, Any], name: str) -> NewEvent:
        return NewEvent(kind, body, origin=lines.origin(AGENT, self._native_id, name))
