"""What a driver is: a pure reading of one agent process's stdout, and what to write to its stdin.

A driver does no I/O and keeps no clock. It is a fold: the same job and the same lines give the same
entries and the same bytes to send. That is what makes a restart harmless: a new process hears the
spool again from its first byte, drops the entries that are in the log already, and sends only what the
outbox does not hold yet.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, Union

import msgspec

from holdfast.model.changes import SeeToken
from holdfast.model.event import NewEvent
from holdfast.transcripts.jsonl import notice_event

Policy = Literal["ask", "allow", "deny"]
Decision = Literal["allow", "deny"]
Entry = Union[NewEvent, SeeToken]


class AgentJob(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt for one agent process: all that a launch and a driver need to know."""

    agent: str  # the registry's name
    session: str
    task: str
    prompt: str
    cwd: str
    program: tuple[str, ...]  # the beginning of its command line: the binary, or node and its script
    version: str | None = None
    permissions: Policy = "ask"
    native_id: str | None = None  # the conversation to go on with, or the id chosen for a new one
    resume: bool = False  # whether `native_id` is to be gone on with
    fork_of: str | None = None  # the conversation that the new one begins as a copy of
    fork_at: str | None = None  # the last record of it that is copied; all of it where that is not given
    args: tuple[str, ...] = ()  # from the config, at the end of its command line


class PermissionRequest(msgspec.Struct, frozen=True):
    """A permission that the agent waits for."""

    id: str  # the agent's id of the request, as text
    call: str
    name: str
    input: Any
    options: tuple[dict[str, Any], ...] = ()


class FinalResult(msgspec.Struct, frozen=True):
    """The agent's own last word on the prompt; without one there was no answer, whatever it exited with."""

    ok: bool
    reason: str | None = None  # why not, in the agent's words
    cancelled: bool = False  # it says that it was stopped
    usage: dict[str, Any] = {}  # input_tokens, output_tokens, cached_tokens, cost_usd: what it told of these
    answer: str | None = None  # its last text


class DriverOutput(msgspec.Struct):
    """What follows from something heard or asked: entries for the log, lines for stdin."""

    entries: list[Entry] = []
    sends: list[bytes] = []  # each one line, newline included


class Driver(Protocol):
    """One agent process, as far as its protocol goes."""

    final: FinalResult | None
    accepted: bool  # the agent has shown that it took the prompt
    native_id: str | None  # as the agent named it; None until then
    asking: dict[str, PermissionRequest]  # by the ask's id: what waits for an answer, in order
    open_calls: dict[str, str]  # call: name of tools that began and did not end

    def open(self) -> DriverOutput:
        """What is sent before anything is heard."""
        ...

    def hear(self, line: bytes) -> DriverOutput:
        """Take one whole line of stdout, without its newline."""
        ...

    def answer(self, ask: str, decision: Decision) -> DriverOutput:
        """Say an answer that is in the log already; an ask that is not open gives nothing."""
        ...

    def unfinished(self) -> tuple[str, str] | None:
        """The kind and text so far of a block that is being said; None where none is, or it is not told."""
        ...

    def interrupt(self) -> DriverOutput | None:
        """What asks the agent to stop; None if only a signal does."""
        ...

    def close(self) -> DriverOutput:
        """Stdout has ended for good: what was half said, and a summary for each call without an end."""
        ...


# --- The driver that an agent's entry names.


def make(kind: str, job: AgentJob) -> Driver:
    """A driver of that kind for one process."""
    if kind == "claude":
        from holdfast.agents.claude.driver import ClaudeDriver

        return ClaudeDriver(job)
    if kind == "codex":
        from holdfast.agents.codex.driver import CodexDriver

        return CodexDriver(job)
    if kind == "acp":
        from holdfast.agents.acp.driver import AcpDriver

        return AcpDriver(job)
    raise AssertionError(kind)


def other_conversation(asked: str, got: str) -> NewEvent:
    """The agent did not go on where it was asked to."""
    said = f"the agent was asked for its conversation {asked} and is in another one, {got}"
    return notice_event("other_conversation", said, asked=asked, got=got)


def resumed(native_id: str) -> NewEvent:
    """The proof of a resume: the agent has named the conversation that it was asked for."""
    return notice_event(
        "resumed", f"the agent goes on with its conversation {native_id}", native_id=native_id
    )


def named_conversation(job: AgentJob, before: str | None, native_id: str, protocol: str) -> list[Entry]:
    """What follows from an agent's naming of its conversation; `before`: as it named it until now.

    One that it began instead of the one that it was asked to go on with does not take that one's place.
    """
    entries: list[NewEvent | SeeToken] = []
    asked = job.native_id if job.resume and before is None else None
    if native_id == asked:
        return [resumed(native_id)]
    if native_id != job.native_id:
        seen = SeeToken(
            agent=job.agent, native_id=native_id, seen_in="stream", protocol=protocol, instead_of=asked
        )
        entries.append(seen)
    was = before or job.native_id
    if was is not None and was != native_id:
        entries.append(other_conversation(was, native_id))
    return entries
