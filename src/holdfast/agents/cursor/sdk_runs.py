"""Which events do the runs of an SDK agent contain?

The source is the SDK's log of run events, whose key is (run, seq). `Run.conversation()` is not used: it is
per run, drops calls without an end, and never returns for a run that a crash left open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from holdfast.agents.acp.content import join_surrogates
from holdfast.agents.cursor import tool_calls
from holdfast.model.event import NewEvent, Origin
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import TranscriptProblem

AGENT = "cursor"
SCHEMA = 1  # of a payload; the SDK refuses every other

FINISHED, ERROR, CANCELLED, EXPIRED = "FINISHED", "ERROR", "CANCELLED", "EXPIRED"
TERMINAL = frozenset({FINISHED, ERROR, CANCELLED, EXPIRED})
WAITING = frozenset({"QUEUED", "CREATING"})

_DAMAGES = ("torn_tail", "nul_tail", "bad_line")
# Not about the work.
_QUIET = frozenset({"request", "usage", "system"})


class SdkRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run's row."""

    id: str
    turn: int = 0
    status: str = ""  # in capitals
    request: str | None = None
    error: str | None = None
    at: str | None = None  # when it ended, else when it last changed


class SdkRunMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a run's log; an unreadable payload is a notice."""

    seq: int
    at: str | None = None
    payload: dict[str, Any] | NewEvent


Prompts = Callable[[SdkRun], str | None]  # a run's prompt, if its log does not hold it


def run_events(
    agent_id: str, logs: Iterable[tuple[SdkRun, Iterable[SdkRunMessage]]], prompt: Prompts | None = None
) -> Iterator[NewEvent]:
    """The events of all runs of an agent, which come in the order of their turns.

    A run that a crash left open is read like any other.
    """
    for item in runs_with_problems(agent_id, logs, prompt):
        if isinstance(item, NewEvent):
            yield item


def runs_with_problems(
    agent_id: str, logs: Iterable[tuple[SdkRun, Iterable[SdkRunMessage]]], prompt: Prompts | None = None
) -> Iterator[NewEvent | TranscriptProblem]:
    """The same, with problems where they occur."""
    last: SdkRunEvents | None = None
    for run, messages in logs:
        if last is not None:
            yield from last.problems(is_last=False)
        last = SdkRunEvents(agent_id, run, prompt)
        for message in messages:
            yield from last.on_message(message)
        yield from last.close()
    if last is not None:
        yield from last.problems(is_last=True)


class SdkRunEvents:
    """One run: joined deltas, calls with their results, and how it ended."""

    def __init__(self, agent_id: str, run: SdkRun, prompt: Prompts | None = None):
        self.run = run
        self.ended: str | None = None  # the terminal status in its log
        self.open: dict[str, dict[str, Any]] = {}  # calls without an end
        self.began = False  # it did more than receive its prompt
        self._agent = agent_id
        self._prompt = prompt
        self._has_prompt = False  # its prompt was emitted
        self._finished_calls: set[str] = set()
        self._status_text: str | None = None  # the text of its final status
        self._seq: int | None = None
        self._kind: str | None = None  # of the current block
        self._first: SdkRunMessage | None = None
        self._pieces: list[str] = []

    def on_message(self, message: SdkRunMessage) -> Iterator[NewEvent | TranscriptProblem]:
        """The events of the next log entry."""
        if self._seq is not None and message.seq <= self._seq:
            evidence = {"run": self.run.id, "seq": message.seq}
            yield TranscriptProblem("duplicate_ordinal", "two events of a run have the same number", evidence)
            return
        if message.seq != (self._seq or 0) + 1:
            evidence = {"run": self.run.id, "after": self._seq or 0, "seq": message.seq}
            yield TranscriptProblem("ordinal_gap", "events of a run are missing", evidence)
        self._seq = message.seq
        payload = message.payload
        if isinstance(payload, NewEvent):
            yield from self._flush()
            code = payload.body.get("code")
            code = code if code in _DAMAGES else "bad_line"
            yield self._event(message, "notice", {**payload.body, "code": code})
            yield TranscriptProblem(
                code, "an event of a run cannot be read", {"run": self.run.id, "seq": message.seq}
            )
            return
        if payload.get("schemaVersion", SCHEMA) != SCHEMA:
            evidence = {"run": self.run.id, "seq": message.seq, "schema": payload["schemaVersion"]}
            yield TranscriptProblem("schema_unknown", "an event has an unknown schema", evidence)
        content = payload.get("message")
        if payload.get("type") == "result":
            self._end(jsonl.text_field(payload, "status"), jsonl.text_field(payload, "errorCode"))
        elif payload.get("type") == "sdk_message" and isinstance(content, dict):
            yield from self._on_content(message, content)
        else:
            yield from self._unknown(message, payload)

    def close(self) -> Iterator[NewEvent]:
        """The end of its log: the partial text, how the run ended, and an end for each open call."""
        yield from self._flush()
        yield from self._ending()
        for call in self.open.values():
            body = {
                "call": call["call"],
                "name": call["name"],
                "outcome": "interrupted",
                "output": jsonl.UNKNOWN_OUTCOME,
            }
            yield NewEvent("tool_summary", body, at=self.run.at)

    def problems(self, is_last: bool) -> Iterator[TranscriptProblem]:
        """Its problems, once it is known whether another run follows."""
        run, status = self.run, self.run.status
        evidence: dict[str, Any] = {"run": run.id, "status": status}
        if status not in TERMINAL:
            if self.ended is not None:
                text = f"a run has ended ({self.ended}), but its row says {status or 'nothing'}"
                yield TranscriptProblem("row_stale", text, {**evidence, "ended": self.ended})
                status = self.ended
            elif status in WAITING and not self.began:
                yield TranscriptProblem("never_started", "a run was created but never started", evidence)
                return
            else:
                text = "a run was left open: its process died or is still running"
                yield TranscriptProblem("run_still_open", text, {**evidence, "began": self.began})
                return
        elif status == FINISHED and self.ended is None:  # the SDK writes the event first, then the row
            text = "a run has ended, but its log stops before its end"
            yield TranscriptProblem("turn_unfinished", text, {**evidence, "began": self.began})
        if not is_last:
            return
        if status == ERROR:
            evidence["error"] = self._status_text or run.error
            yield TranscriptProblem("ended_in_api_error", "the last run ended in an error", evidence)
        elif status == CANCELLED:
            yield TranscriptProblem("interrupted_on_purpose", "the last run was canceled", evidence)
        elif status == EXPIRED:
            yield TranscriptProblem("turn_unfinished", "the last run expired", evidence)

    # --- One message

    def _on_content(
        self, message: SdkRunMessage, content: dict[str, Any]
    ) -> Iterator[NewEvent | TranscriptProblem]:
        kind = jsonl.text_field(content, "type")
        if kind == "status":
            self._status(content)
            return
        if kind in _QUIET:
            return
        if kind == "user":
            yield from self._flush()
            self.began = self._has_prompt = True
            yield self._event(message, "user", {"text": tool_calls.content(content.get("message"))})
            return
        yield from self._begin(message)
        if kind == "assistant":
            yield from self._piece(
                message, "assistant", tool_calls.content(content.get("message"), names=False)
            )
        elif kind == "thinking":
            yield from self._piece(message, "thinking", jsonl.text_field(content, "text"))
            if content.get("thinking_duration_ms") is not None:
                yield from self._flush()
        elif kind == "tool_call":
            yield from self._flush()
            yield from self._call(message, content)
        elif kind == "task" and (text := jsonl.text_field(content, "text")):
            yield from self._flush()
            yield self._event(message, "notice", {"text": text, "code": "task"})
        else:
            yield from self._unknown(message, content)

    def _begin(self, message: SdkRunMessage) -> Iterator[NewEvent]:
        """The prompt, which the log holds only if the server sent it back."""
        if self._has_prompt:
            return
        self.began = self._has_prompt = True
        text = self._prompt(self.run) if self._prompt is not None else None
        origin = jsonl.origin(AGENT, self._agent, f"{self.run.id}:prompt")
        if text is not None:
            yield NewEvent("user", {"text": text}, at=message.at, origin=origin)
        else:
            body = {"text": "the prompt of this run is not in its store", "code": "no_prompt"}
            yield NewEvent("notice", body, at=message.at, origin=origin)

    def _piece(self, message: SdkRunMessage, kind: str, text: str) -> Iterator[NewEvent]:
        if kind != self._kind:
            yield from self._flush()
        if text:
            if self._first is None:
                self._kind, self._first = kind, message
            self._pieces.append(text)

    def _flush(self) -> Iterator[NewEvent]:
        kind, first, text = self._kind, self._first, join_surrogates("".join(self._pieces))
        self._kind, self._first, self._pieces = None, None, []
        if kind is not None and first is not None:
            yield self._event(first, kind, {"text": text})

    def _call(
        self, message: SdkRunMessage, content: dict[str, Any]
    ) -> Iterator[NewEvent | TranscriptProblem]:
        call = jsonl.text_field(content, "call_id") or f"{self.run.id}:{message.seq}"
        running = content.get("status") == "running"
        if not running and call in self._finished_calls and call not in self.open:
            evidence = {"run": self.run.id, "call": call}
            yield TranscriptProblem("duplicate_result", "a call ended twice", evidence)
            return
        name = jsonl.text_field(content, "name") or "tool"
        if call not in self.open:
            self.open[call] = {"call": call, "name": name, "input": content.get("args") or {}}
            part = "" if running else ":call"
            yield self._event(message, "tool_progress", dict(self.open[call]), part)
        if running:
            return
        name = self.open.pop(call)["name"]
        self._finished_calls.add(call)
        body = {"call": call, "name": name, **tool_calls.result(content.get("result"), content.get("status"))}
        yield self._event(message, "tool_summary", body)

    def _status(self, content: dict[str, Any]) -> None:
        self._end(jsonl.text_field(content, "status"), jsonl.text_field(content, "message"))

    def _end(self, status: str, text: str) -> None:
        if status.upper() in TERMINAL:
            self.ended, self._status_text = status.upper(), text or self._status_text
        elif status:
            self.ended = None

    def _ending(self) -> Iterator[NewEvent]:
        """An event for an unsuccessful end; a row may know of one that its log lacks."""
        run = self.run
        ended = run.status if run.status in TERMINAL else self.ended
        at, origin = run.at, jsonl.origin(AGENT, self._agent, f"{run.id}:end")
        if ended == ERROR:
            text = self._status_text or run.error or "the run ended in an error"
            yield NewEvent("error", {"text": text, "code": "run_error"}, at=at, origin=origin)
        elif ended == CANCELLED:
            yield NewEvent(
                "notice", {"text": "the run was canceled", "code": "cancelled"}, at=at, origin=origin
            )
        elif ended == EXPIRED:
            text = self._status_text or run.error or "the run expired"
            yield NewEvent("notice", {"text": text, "code": "expired"}, at=at, origin=origin)

    def _unknown(self, message: SdkRunMessage, content: dict[str, Any]) -> Iterator[NewEvent]:
        yield from self._flush()
        odd = jsonl.unknown(content)
        yield self._event(message, odd.kind, odd.body)

    def _event(self, message: SdkRunMessage, kind: str, body: dict[str, Any], part: str = "") -> NewEvent:
        return NewEvent(kind, body, at=message.at, origin=self._origin(message, part))

    def _origin(self, message: SdkRunMessage, part: str) -> Origin | None:
        return jsonl.origin(AGENT, self._agent, f"{self.run.id}:{message.seq}{part}")
