"""How is an agent driven? A driver turns its stdout into log entries and decides what goes to its stdin.

A driver does no I/O and keeps no clock. It is a fold: the same job and the same lines give the same entries
and the same bytes to send. This makes a restart harmless: a new process reads the spool again from its first
byte, drops the entries that are already in the log, and sends only what is not in the outbox yet.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, Union

import msgspec

from holdfast.model.changes import SeeToken
from holdfast.model.event import NewEvent
from holdfast.transcripts.jsonl import notice_event

# Characters of one text event. A longer block becomes several events marked as its parts, so that no message
# has to fit into memory, however long it is.
MAX_BLOCK = 256 * 1024

Policy = Literal["ask", "allow", "deny"]
Decision = Literal["allow", "deny"]
Entry = Union[NewEvent, SeeToken]


class AgentJob(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt for one agent process: everything that a launch and a driver need."""

    agent: str  # its name in the registry
    session: str
    task: str
    prompt: str
    cwd: str
    program: tuple[str, ...]  # the beginning of the command line: the binary, or node and its script
    version: str | None = None
    permissions: Policy = "ask"
    native_id: str | None = None  # the conversation to resume, or the id chosen for a new one
    resume: bool = False  # resume `native_id`
    fork_of: str | None = None  # the conversation that the new one starts as a copy of
    fork_at: str | None = None  # the last record to copy; None: all of them
    args: tuple[str, ...] = ()  # from the config, added at the end of the command line


class PermissionRequest(msgspec.Struct, frozen=True):
    """A permission that the agent is waiting for."""

    id: str  # the agent's request id, as text
    call: str
    name: str
    input: Any
    options: tuple[dict[str, Any], ...] = ()


class FinalResult(msgspec.Struct, frozen=True):
    """The agent's own result of the prompt. Without one there was no answer, whatever the exit status."""

    ok: bool
    reason: str | None = None  # why it failed, in the agent's words
    cancelled: bool = False  # the agent reports that it was stopped
    usage: dict[str, Any] = {}  # input_tokens, output_tokens, cached_tokens, cost_usd, as far as reported
    answer: str | None = None  # its last text


class DriverOutput(msgspec.Struct):
    """The result of an input: entries for the log, lines for stdin."""

    entries: list[Entry] = []
    sends: list[bytes] = []  # one line each, newline included


class Driver(Protocol):
    """The protocol state of one agent process."""

    final: FinalResult | None
    accepted: bool  # the agent showed that it received the prompt
    native_id: str | None  # as the agent named it; None until then
    pending_permissions: dict[str, PermissionRequest]  # by request id, in order
    open_calls: dict[str, str]  # call id -> tool name, for calls that have not ended

    def start_messages(self) -> DriverOutput:
        """What is sent before any output arrives."""
        ...

    def on_line(self, line: bytes) -> DriverOutput:
        """Process one whole line of stdout, without its newline."""
        ...

    def answer(self, ask: str, decision: Decision) -> DriverOutput:
        """Send an answer that is already in the log; a request that is not pending sends nothing."""
        ...

    def partial_text(self) -> tuple[str, str] | None:
        """The kind and the text so far of a block that is still streaming; None if there is none."""
        ...

    def interrupt(self) -> DriverOutput | None:
        """What asks the agent to stop; None if only a signal stops it."""
        ...

    def on_eof(self) -> DriverOutput:
        """Stdout has ended: yield the partial text, and a summary for each call without an end."""
        ...


def other_conversation(asked: str, got: str) -> NewEvent:
    """The agent did not continue the conversation that it was asked for."""
    text = f"Holdfast asked for conversation {asked}, but the agent continues another one, {got}"
    return notice_event("other_conversation", text, asked=asked, got=got)


def resumed(native_id: str) -> NewEvent:
    """The proof of a resume: the agent named the conversation that it was asked for."""
    return notice_event("resumed", f"the agent resumed conversation {native_id}", native_id=native_id)


def named_conversation(job: AgentJob, before: str | None, native_id: str, protocol: str) -> list[Entry]:
    """The entries after an agent names its conversation; `before` is the name it used until now.

    A conversation that the agent started instead of the requested one does not replace that one.
    """
    entries: list[NewEvent | SeeToken] = []
    asked = job.native_id if job.resume and before is None else None
    if native_id == asked:
        return [resumed(native_id)]
    if native_id != job.native_id:
        token = SeeToken(
            agent=job.agent, native_id=native_id, seen_in="stream", protocol=protocol, instead_of=asked
        )
        entries.append(token)
    was = before or job.native_id
    if was is not None and was != native_id:
        entries.append(other_conversation(was, native_id))
    return entries
