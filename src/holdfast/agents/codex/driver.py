"""How is Codex driven? By `codex exec --json`: one prompt on stdin, and no input after it."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.agents.driver import (
    AgentJob,
    Decision,
    DriverOutput,
    Entry,
    FinalResult,
    PermissionRequest,
    named_conversation,
)
from holdfast.model import json_codec
from holdfast.model.event import NewEvent, Origin
from holdfast.transcripts import jsonl

TOOLS = frozenset({"command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call"})


class CodexItemCall(msgspec.Struct, frozen=True):
    """One call, as far as it is reported."""

    name: str
    input: Any
    outcome: str
    output: str
    exit_code: int | None = None


def tool(item: dict[str, Any]) -> CodexItemCall:
    """The call in an item of a type in `TOOLS`."""
    kind = item["type"]
    if kind == "command_execution":
        return _command(item)
    if kind == "file_change":
        changes = item.get("changes")
        return CodexItemCall("file_change", {"changes": changes}, _outcome(item), _changes(changes))
    if kind == "mcp_tool_call":
        return _mcp(item)
    if kind == "web_search":
        keep = {key: item[key] for key in ("query", "action") if key in item}
        return CodexItemCall("web_search", keep, _outcome(item), "")
    rest = {key: value for key, value in item.items() if key not in ("id", "type", "status")}
    return CodexItemCall(str(item.get("tool") or kind), rest, _outcome(item), "")


def _command(item: dict[str, Any]) -> CodexItemCall:
    output = item.get("aggregated_output")
    code = item.get("exit_code")
    outcome = _outcome(item)
    if outcome == "ok" and type(code) is int and code != 0:
        outcome = "error"
    return CodexItemCall(
        "command_execution",
        {"command": item.get("command")},
        outcome,
        output if isinstance(output, str) else "",
        code if type(code) is int else None,
    )


def _mcp(item: dict[str, Any]) -> CodexItemCall:
    name = ".".join(str(item[key]) for key in ("server", "tool") if item.get(key))
    error, result = item.get("error"), item.get("result")
    if isinstance(error, dict):
        output = str(error.get("message") or json_codec.encode(error).decode())
    else:
        output = _content(result)
    return CodexItemCall(name or "mcp_tool_call", item.get("arguments"), _outcome(item), output)


def _content(result: Any) -> str:
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return "" if result is None else json_codec.encode(result).decode()
    return "\n".join(
        block["text"] if isinstance(block.get("text"), str) else f"[{block.get('type')}]"
        for block in content
        if isinstance(block, dict)
    )


def _changes(changes: Any) -> str:
    listed = changes if isinstance(changes, list) else []
    return "\n".join(f"{c.get('kind')} {c.get('path')}" for c in listed if isinstance(c, dict))


def _outcome(item: dict[str, Any]) -> str:
    return "error" if item.get("status") in ("failed", "declined") or item.get("error") else "ok"


# --- The driver

PROTOCOL = "exec-json"
COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_tokens": "cached_input_tokens",
    "cache_write_tokens": "cache_write_input_tokens",
    "reasoning_tokens": "reasoning_output_tokens",
}


class CodexDriver:
    """One `codex exec` process."""

    def __init__(self, job: AgentJob):
        """Start before any output."""
        self.job = job
        self.final: FinalResult | None = None
        self.accepted = False
        self.native_id: str | None = None
        self.pending_permissions: dict[str, PermissionRequest] = {}
        self.open_calls: dict[str, str] = {}
        self._begun: set[str] = set()
        self._answer: str | None = None
        self._problem: str | None = None  # the message of an `error` before `turn.failed`

    def start_messages(self) -> DriverOutput:
        """Nothing: the prompt is all of stdin."""
        return DriverOutput()

    def answer(self, ask: str, decision: Decision) -> DriverOutput:
        """Nothing: it never asks."""
        return DriverOutput()

    def partial_text(self) -> tuple[str, str] | None:
        """See `Driver`."""
        return None

    def interrupt(self) -> DriverOutput | None:
        """Only a signal stops it: SIGINT is its clean stop."""
        return None

    def on_line(self, line: bytes) -> DriverOutput:
        """Process one whole line of stdout."""
        out = DriverOutput()
        if jsonl.is_blank(line):
            return out
        record = jsonl.parse(line)
        if isinstance(record, NewEvent):
            out.entries.append(record)
            return out
        kind = jsonl.text_field(record, "type")
        if kind == "thread.started":
            self._on_thread(record, out.entries)
        elif kind == "turn.started":
            self._accept(out.entries)
        elif kind in ("item.started", "item.updated", "item.completed"):
            item = record.get("item")
            if isinstance(item, dict):
                self._item(kind, item, out.entries)
            else:
                out.entries.append(jsonl.unknown(record))
        elif kind == "turn.completed":
            self.final = FinalResult(ok=True, usage=self._usage(record), answer=self._answer)
        elif kind == "turn.failed":
            self._failed(record)
        elif kind == "error":
            message = record.get("message")
            self._problem = message if isinstance(message, str) else jsonl.preview(record)
            out.entries.append(jsonl.error("agent_error", self._problem))
        else:
            out.entries.append(jsonl.unknown(record))
        return out

    def on_eof(self) -> DriverOutput:
        """Stdout has ended."""
        out = DriverOutput()
        for call, name in self.open_calls.items():
            body = {"call": call, "name": name, "outcome": "interrupted", "output": jsonl.UNKNOWN_OUTCOME}
            out.entries.append(NewEvent("tool_summary", body))
        self.open_calls.clear()
        return out

    def _on_thread(self, record: dict[str, Any], entries: list[Entry]) -> None:
        named = jsonl.storable_id(record.get("thread_id"))
        if named is None or named == self.native_id:
            return
        entries += named_conversation(self.job, self.native_id, named, PROTOCOL)
        self.native_id = named

    def _accept(self, entries: list[Entry]) -> None:
        if not self.accepted:
            self.accepted = True
            entries.append(NewEvent("user", {"text": self.job.prompt}, origin=self._origin("prompt")))

    def _failed(self, record: dict[str, Any]) -> None:
        error = record.get("error")
        message = error.get("message") if isinstance(error, dict) else None
        reason = message if isinstance(message, str) and message else self._problem
        self.final = FinalResult(ok=False, reason=reason or "the turn failed without a reason")

    def _usage(self, record: dict[str, Any]) -> dict[str, Any]:
        """It counts over all turns of a conversation (0.166.0), so a resumed run has no counts of its own."""
        usage = record.get("usage")
        reported = usage if isinstance(usage, dict) else {}
        counts = {name: reported[key] for name, key in COUNTS.items() if type(reported.get(key)) is int}
        return {"conversation": counts} if self.job.resume and counts else counts

    def _item(self, kind: str, item: dict[str, Any], entries: list[Entry]) -> None:
        id, what = item.get("id"), item.get("type")
        if not isinstance(id, str) or not isinstance(what, str):
            entries.append(jsonl.unknown(item))
            return
        if what in TOOLS:
            self._tool(kind, f"{self.job.task}:{id}", tool(item), entries)
            return
        if kind != "item.completed":
            return  # a plan that grows; only its last state is logged
        text = item.get("text")
        if what in ("agent_message", "reasoning") and isinstance(text, str):
            if what == "agent_message":
                self._answer = text
            if text:
                name = "assistant" if what == "agent_message" else "thinking"
                entries.append(NewEvent(name, {"text": text}, origin=self._origin(id)))
        elif what == "error":
            # Warnings arrive this way too; a failure is `turn.failed`.
            entries.append(jsonl.notice_event("agent_warning", str(item.get("message", ""))))
        elif what == "todo_list":
            entries.append(jsonl.notice_event("plan", _plan(item.get("items"))))
        else:
            entries.append(jsonl.unknown(item))

    def _tool(self, kind: str, call: str, item_call: CodexItemCall, entries: list[Entry]) -> None:
        if call not in self._begun:
            self._begun.add(call)
            self.open_calls[call] = item_call.name
            body: dict[str, Any] = {"call": call, "name": item_call.name, "input": item_call.input}
            entries.append(NewEvent("tool_progress", body, origin=self._origin(f"call:{call}")))
        if kind == "item.completed" and self.open_calls.pop(call, None) is not None:
            body = {
                "call": call,
                "name": item_call.name,
                "outcome": item_call.outcome,
                "output": item_call.output,
            }
            if item_call.exit_code is not None:
                body["exit_code"] = item_call.exit_code
            entries.append(NewEvent("tool_summary", body, origin=self._origin(f"result:{call}")))

    def _origin(self, record: str) -> Origin | None:
        """Its item ids restart in every process, so they are unique only together with the task."""
        record_id = record if self.job.task in record else f"{self.job.task}:{record}"
        return jsonl.origin(self.job.agent, self.native_id or self.job.native_id, record_id)


def _plan(items: Any) -> str:
    steps = items if isinstance(items, list) else []
    return "\n".join(
        f"[{'x' if step.get('completed') else ' '}] {step.get('text', '')}"
        for step in steps
        if isinstance(step, dict)
    )
