"""How is Claude Code's store read?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.agents.claude import sessions
from holdfast.agents.claude.events import AGENT
from holdfast.agents.claude.inspect import ClaudeFacts, ClaudeFindings, collect_facts, find_problems
from holdfast.agents.claude.records import blocks
from holdfast.agents.claude.subagents import ClaudeSubagents, session_events
from holdfast.agents.claude.transcript import ClaudeTranscript
from holdfast.model.event import NewEvent
from holdfast.transcripts.reader import (
    HARMLESS,
    Inspection,
    SessionRef,
    TranscriptProblem,
    TranscriptReader,
)

_LISTED = 1000  # how many calls without a result are listed


class ClaudeReader(TranscriptReader):
    """Transcripts in `${CLAUDE_CONFIG_DIR:-~/.claude}/projects`."""

    agent = AGENT
    harmless = HARMLESS
    root_variable = "CLAUDE_CONFIG_DIR"
    root_folder = ".claude"

    def find(self, root: str, name: str) -> list[SessionRef]:
        """By id in all projects, or by the path of any transcript."""
        return sessions.find(root, name)

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions, or those that began in a cwd."""
        return sessions.sessions(root, cwd)

    def events(self, ref: SessionRef) -> Iterator[NewEvent]:
        """The history in logical order; both branches of a fork."""
        return session_events(ref.path, ref.native_id)

    def inspect(self, ref: SessionRef) -> Inspection:
        """Whether the transcript and those of its subagents are sound."""
        try:
            with ClaudeTranscript(ref.path) as transcript:
                facts = collect_facts(transcript.pieces())
                findings = find_problems(facts, sessions.id_of(ref.path))
                dangling = [_call(transcript, facts, call) for call in findings.dangling[:_LISTED]]
        except OSError as problem:
            failure = TranscriptProblem("no_transcript", f"{ref.path} cannot be read: {problem.strerror}", {})
            return self._inspection(ref, ClaudeFindings([failure], [], 0, None), [])
        open_below = _open_calls_of_subagents(ref, findings)
        if open_below:
            calls = [call["call"] for call in open_below]
            failure = TranscriptProblem(
                "dangling_call", "calls of subagents have no result", {"calls": calls}
            )
            findings = findings._replace(problems=[*findings.problems, failure])
        return self._inspection(ref, findings, [*dangling, *open_below])

    def files(self, ref: SessionRef) -> list[str]:
        """The transcript, and everything in the folder with the session's id."""
        paths = [ref.path]
        for base, folders, names in os.walk(os.path.join(os.path.dirname(ref.path), ref.native_id)):
            folders.sort()
            paths += [os.path.join(base, name) for name in sorted(names)]
        paths += [file for file in ClaudeSubagents(ref.path, ref.native_id).all() if file not in paths]
        return [file for file in paths if os.path.isfile(file) and not os.path.islink(file)]

    def owners(self, root: str, ref: SessionRef) -> list[int]:
        """The living processes in Claude Code's registry."""
        return sessions.owners(root, ref.native_id)

    def tools(self, root: str, ref: SessionRef) -> list[int]:
        """The living processes with the session's id in their environment."""
        return sessions.tools(ref.native_id)

    def _inspection(
        self, ref: SessionRef, verdict: ClaudeFindings, dangling: list[dict[str, Any]]
    ) -> Inspection:
        inspection = self.inspection(
            ref,
            verdict.problems,
            dangling=dangling,
            turns=verdict.turns,
            last_complete=verdict.last_complete,
        )
        exists = os.path.exists(ref.path)
        return inspection if exists else msgspec.structs.replace(inspection, path=None)


def _call(transcript: ClaudeTranscript, facts: ClaudeFacts, call: str) -> dict[str, Any]:
    """A call with its input from its record."""
    known = facts.calls[call]
    open_call = {"call": call, "name": known.name, "input": None}
    record = transcript.record(known.offset)
    for block in blocks(record) if record is not None else ():
        if block.get("id") == call:
            open_call["input"] = block.get("input")
    return open_call


def _open_calls_of_subagents(ref: SessionRef, verdict: ClaudeFindings) -> list[dict[str, Any]]:
    """Open calls of background subagents whose own call has a result."""
    open_calls: list[dict[str, Any]] = []
    for call, file in ClaudeSubagents(ref.path, ref.native_id).rest():
        if call in verdict.dangling or len(open_calls) >= _LISTED:
            continue
        try:
            with ClaudeTranscript(file) as transcript:
                facts = collect_facts(transcript.pieces())
                left = [name for name, known in facts.calls.items() if not known.results]
                open_calls += [{**_call(transcript, facts, name), "parent": call} for name in left]
        except OSError:
            continue
    return open_calls
