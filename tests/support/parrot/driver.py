"""Reads the made-up agent's stdout."""

from __future__ import annotations

from holdfast.agents.driver import (
    AgentJob,
    Decision,
    DriverOutput,
    FinalResult,
    PermissionRequest,
    named_conversation,
)
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl


class ParrotDriver:
    """One process of the made-up agent."""

    def __init__(self, job: AgentJob):
        self.job = job
        self.final: FinalResult | None = None
        self.accepted = False
        self.native_id: str | None = None
        self.pending_permissions: dict[str, PermissionRequest] = {}
        self.open_calls: dict[str, str] = {}
        self._answer: str | None = None

    def start_messages(self) -> DriverOutput:
        return DriverOutput()

    def on_line(self, line: bytes) -> DriverOutput:
        record = jsonl.parse(line)
        if isinstance(record, NewEvent):
            return DriverOutput([record])
        match record.get("type"):
            case "session":
                self.accepted, before = True, self.native_id
                self.native_id = str(record["id"])
                token = named_conversation(self.job, before, self.native_id, "parrot-json")
                return DriverOutput([*token, NewEvent("user", {"text": self.job.prompt})])
            case "reply":
                self._answer = str(record["text"])
                return DriverOutput([NewEvent("assistant", {"text": self._answer})])
            case "end":
                self.final = FinalResult(ok=True, answer=self._answer)
                return DriverOutput()
        return DriverOutput([jsonl.unknown(record)])

    def answer(self, ask: str, decision: Decision) -> DriverOutput:
        return DriverOutput()

    def partial_text(self) -> tuple[str, str] | None:
        return None

    def interrupt(self) -> DriverOutput | None:
        return None

    def on_eof(self) -> DriverOutput:
        return DriverOutput()
