"""How is Claude Code driven? By stream-json both ways, with its control protocol."""

from __future__ import annotations

from typing import Any

from holdfast.agents.claude import control, stream
from holdfast.agents.claude.control import ClaudePermissions
from holdfast.agents.claude.stream import PartialBlock
from holdfast.agents.claude.tool_calls import ClaudeToolCalls
from holdfast.agents.driver import AgentJob, Decision, DriverOutput, Entry, FinalResult, named_conversation
from holdfast.model.event import NewEvent, Origin
from holdfast.transcripts import jsonl

PROTOCOL = "stream-json"


class ClaudeDriver:
    """One `claude -p --input-format stream-json --output-format stream-json` process."""

    def __init__(self, job: AgentJob):
        """Start before any output."""
        self.job = job
        self.final: FinalResult | None = None
        self.accepted = False
        self.native_id: str | None = None
        self._permissions = ClaudePermissions(job.permissions)
        self._calls = ClaudeToolCalls()
        self._partial = PartialBlock()
        self.pending_permissions = self._permissions.waiting
        self.open_calls = self._calls.open
        self._states = False  # it reports its state, including when it is idle
        self._result: dict[str, Any] | None = None  # of the last turn, until another one begins
        self._usage: dict[str, Any] = {}
        self._version = job.version

    def start_messages(self) -> DriverOutput:
        """The handshake and the prompt."""
        hello = control.request("holdfast-1", "initialize", hooks=None)
        return DriverOutput(sends=[hello, control.prompt(self.job.task, self.job.prompt)])

    def answer(self, ask: str, decision: Decision) -> DriverOutput:
        """Send an answer that is already in the log."""
        return self._permissions.answer(ask, decision)

    def partial_text(self) -> tuple[str, str] | None:
        """See `Driver`."""
        return self._partial.partial_text()

    def interrupt(self) -> DriverOutput | None:
        """The control request that interrupts the turn."""
        return DriverOutput(sends=[control.request("holdfast-2", "interrupt")])

    def on_line(self, line: bytes) -> DriverOutput:
        """Process one whole line of stdout."""
        if jsonl.is_blank(line):
            return DriverOutput()
        record = jsonl.parse(line)
        if isinstance(record, NewEvent):
            return DriverOutput([record])
        kind = jsonl.text_field(record, "type")
        if kind == "control_request":
            return self._on_permission_request(record)
        out = DriverOutput()
        if kind == "stream_event":
            self._partial.on_record(record)
        elif kind == "system":
            self._system(record, out.entries)
        elif kind == "assistant":
            self._assistant(record, out.entries)
        elif kind == "user":
            self._user(record, out.entries)
        elif kind == "result":
            self._on_turn_end(record)
        elif kind == "control_response":
            self._permissions.on_echo(record)
        elif kind == "control_cancel_request":
            out.entries += self._permissions.on_withdrawn(record)
        elif kind == "rate_limit_event":
            out.entries += stream.rate_limit(record)
        elif kind not in stream.QUIET:
            out.entries.append(jsonl.unknown(record))
        return out

    def on_eof(self) -> DriverOutput:
        """Stdout has ended."""
        if self._result is not None and not self._calls.has_subagents:
            self._settle()
        out = DriverOutput([*self._partial.close()])
        for call, name in self.open_calls.items():
            out.entries.append(
                self._summary(call, name, "interrupted", self._permissions.outcome_of(call), None)
            )
        self.open_calls.clear()
        self.pending_permissions.clear()
        return out

    # --- System records

    def _system(self, record: dict[str, Any], entries: list[Entry]) -> None:
        subtype = jsonl.text_field(record, "subtype")
        if subtype == "init":
            self._on_turn_start(record, entries)
        elif subtype == "session_state_changed":
            self._states = True
            # 2.1.197 also reports idle while background subagents run; 2.1.325 does not.
            if record.get("state") == "idle" and self._result is not None and not self._calls.has_subagents:
                self._settle()
                entries += self._left_running()
        elif subtype in ("task_started", "task_updated", "task_notification"):
            notice = self._calls.on_task(record, between_turns=self._result is not None)
            if notice is not None:
                call = record.get("tool_use_id")
                entries.append(jsonl.notice_event("background_ended", notice[: jsonl.SHOWN], call=call))
        elif subtype not in stream.QUIET_SYSTEM:
            entries.append(stream.system_event(record))

    def _on_turn_start(self, record: dict[str, Any], entries: list[Entry]) -> None:
        """A turn begins; without a prompt it follows a background task that ended."""
        self._result, self._calls.stopped = None, False
        version = record.get("claude_code_version")
        self._version = version if isinstance(version, str) else self._version
        named = jsonl.storable_id(record.get("session_id"))
        if named is not None and named != self.native_id:
            entries += named_conversation(self.job, self.native_id, named, PROTOCOL)
            self.native_id = named
        self._accept(entries)

    def _accept(self, entries: list[Entry]) -> None:
        if not self.accepted:
            self.accepted = True
            origin = self._origin(control.prompt_id(self.job.task))
            entries.append(NewEvent("user", {"text": self.job.prompt}, origin=origin))

    def _on_turn_end(self, record: dict[str, Any]) -> None:
        self._result = record
        self._partial.drop()
        for name, count in stream.counts(record).items():
            self._usage[name] = self._usage.get(name, 0) + count
        if not self._states and not self._calls.has_subagents:
            self._settle()

    def _settle(self) -> None:
        assert self._result is not None
        summed = self.job.resume and stream.is_cumulative_cost(self._version)
        usage = {**self._usage, **stream.cost(self._result, summed)}
        self.final = stream.final(self._result, usage, self._calls.stopped)

    def _left_running(self) -> list[Entry]:
        """Background commands do not hold the task; 2.1.325 does not exit while one runs."""
        running = self._calls.running()
        if not running:
            return []
        return [
            jsonl.notice_event("background_running", "still running: " + "; ".join(running)[: jsonl.SHOWN])
        ]

    # --- Messages and tools

    def _assistant(self, record: dict[str, Any], entries: list[Entry]) -> None:
        self._partial.on_whole_record(record)
        for i, block in enumerate(stream.blocks(record.get("message"))):
            kind = jsonl.text_field(block, "type")
            if kind in stream.TOOL_USE_TYPES:
                self._called(record, block, entries)
            elif isinstance(block.get("tool_use_id"), str):
                self._returned(record, block, entries)
            elif kind in ("text", "thinking"):
                event = stream.text_event(record, block, self._record_origin(record, i))
                entries += [event] if event is not None else []
            elif kind != "redacted_thinking":
                entries.append(jsonl.unknown(block))

    def _called(self, record: dict[str, Any], block: dict[str, Any], entries: list[Entry]) -> None:
        call, name = block.get("id"), block.get("name")
        if not isinstance(call, str) or not isinstance(name, str):
            entries.append(jsonl.unknown(block))
        elif self._calls.start(call, name, record.get("parent_tool_use_id")):
            body = self._with_parent(call, {"call": call, "name": name, "input": block.get("input")})
            entries.append(NewEvent("tool_progress", body, origin=self._origin(f"call:{call}")))

    def _user(self, record: dict[str, Any], entries: list[Entry]) -> None:
        if record.get("uuid") == control.prompt_id(self.job.task):
            self._accept(entries)
            return
        for i, block in enumerate(stream.blocks(record.get("message"))):
            text = block.get("text")
            if isinstance(block.get("tool_use_id"), str):
                self._returned(record, block, entries)
            elif isinstance(record.get("parent_tool_use_id"), str):
                pass  # a subagent's prompt; its call already holds it as input
            elif isinstance(text, str):
                code = "interrupted" if text.startswith(stream.INTERRUPT_MARK) else "told"
                origin = self._record_origin(record, i)
                entries.append(NewEvent("notice", {"text": text, "code": code}, origin=origin))
            else:
                entries.append(jsonl.unknown(block))

    def _returned(self, record: dict[str, Any], block: dict[str, Any], entries: list[Entry]) -> None:
        call = block["tool_use_id"]
        self._permissions.on_result(call)
        name = self._calls.end(call, stream.runs_in_background(record))
        if name is None:
            return
        outcome = "error" if block.get("is_error") else "ok"
        if outcome == "error" and call not in self._permissions.refused and stream.was_stopped(record, block):
            outcome = "interrupted"
        origin = self._origin(f"result:{call}")
        entries.append(self._summary(call, name, outcome, stream.output(block.get("content")), origin))

    def _on_permission_request(self, record: dict[str, Any]) -> DriverOutput:
        id, request = record.get("request_id"), record.get("request")
        if not isinstance(id, str) or not isinstance(request, dict):
            return DriverOutput([jsonl.unknown(record)])
        if request.get("subtype") != "can_use_tool":
            return DriverOutput([jsonl.unknown(record)], [control.refusal(id)])
        return self._permissions.on_request(
            record, self._calls.parents.get(jsonl.text_field(request, "tool_use_id"))
        )

    def _summary(self, call: str, name: str, outcome: str, output: str, origin: Origin | None) -> NewEvent:
        body = {"call": call, "name": name, "outcome": outcome, "output": output}
        return NewEvent("tool_summary", self._with_parent(call, body), origin=origin)

    def _with_parent(self, call: str, body: dict[str, Any]) -> dict[str, Any]:
        parent = self._calls.parents.get(call)
        return body if parent is None else {**body, "parent": parent}

    def _origin(self, record_id: str) -> Origin | None:
        return jsonl.origin(self.job.agent, self.native_id or self.job.native_id, record_id)

    def _record_origin(self, record: dict[str, Any], block: int) -> Origin | None:
        """Its transcript has a record with the same uuid; both hold one block each."""
        id = record.get("uuid")
        if not isinstance(id, str):
            return None
        return self._origin(id if block == 0 else f"{id}:{block}")
