"""The reader of Claude Code's store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.agents.claude import sessions as owners
from holdfast.agents.claude import sessions as places
from holdfast.agents.claude.events import AGENT
from holdfast.agents.claude.inspect import ClaudeFacts, ClaudeFindings, gather, is_sound, judge
from holdfast.agents.claude.records import blocks
from holdfast.agents.claude.subagents import ClaudeSubagents, history
from holdfast.agents.claude.transcript import ClaudeTranscript
from holdfast.model.event import NewEvent
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptProblem

_LISTED = 1000  # calls without a result


class ClaudeReader:
    """Transcripts below `${CLAUDE_CONFIG_DIR:-~/.claude}/projects`."""

    agent = AGENT
    missing = "no_transcript"

    def root(self, env: Mapping[str, str]) -> str:
        """Its config folder."""
        return places.root(env)

    def find(self, root: str, name: str) -> list[SessionRef]:
        """By the id, in all projects; or by the path of any transcript."""
        return places.find(root, name)

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions, or those that began in a cwd."""
        return places.sessions(root, cwd)

    def events(self, place: SessionRef) -> Iterator[NewEvent]:
        """The history in its logical order; of a fork, both ways."""
        return history(place.path, place.native_id)

    def inspect(self, place: SessionRef) -> Inspection:
        """Whether the transcript and those of its subagents are sound."""
        try:
            with ClaudeTranscript(place.path) as transcript:
                facts = gather(transcript.pieces())
                verdict = judge(facts, places.id_of(place.path))
                dangling = [_call(transcript, facts, call) for call in verdict.dangling[:_LISTED]]
        except OSError as problem:
            said = TranscriptProblem("no_transcript", f"{place.path} cannot be read: {problem.strerror}", {})
            return _inspection(place, ClaudeFindings([said], [], 0, None), [])
        below = _below(place, verdict)
        if below:
            calls = [call["call"] for call in below]
            said = TranscriptProblem("dangling_call", "calls of subagents have no result", {"calls": calls})
            verdict = verdict._replace(problems=[*verdict.problems, said])
        return _inspection(place, verdict, [*dangling, *below])

    def files(self, place: SessionRef) -> list[str]:
        """The transcript, and all that lies in the folder of the session's name."""
        found = [place.path]
        for base, folders, names in os.walk(os.path.join(os.path.dirname(place.path), place.native_id)):
            folders.sort()
            found += [os.path.join(base, name) for name in sorted(names)]
        found += [file for file in ClaudeSubagents(place.path, place.native_id).all() if file not in found]
        return [file for file in found if os.path.isfile(file) and not os.path.islink(file)]

    def owners(self, root: str, place: SessionRef) -> list[int]:
        """The living processes that its registry names."""
        return owners.owners(root, place.native_id)

    def tools(self, root: str, place: SessionRef) -> list[int]:
        """The living processes that have the session's id in their environment."""
        return owners.tools(place.native_id)


def _inspection(place: SessionRef, verdict: ClaudeFindings, dangling: list[dict[str, Any]]) -> Inspection:
    return Inspection(
        agent=AGENT,
        native_id=place.native_id,
        path=place.path if os.path.exists(place.path) else None,
        sound=is_sound(verdict.problems),
        problems=verdict.problems,
        dangling=dangling,
        turns=verdict.turns,
        last_complete=verdict.last_complete,
        title=place.title,
        cwd=place.cwd,
    )


def _call(transcript: ClaudeTranscript, facts: ClaudeFacts, call: str) -> dict[str, Any]:
    """A call as its record has it."""
    known = facts.calls[call]
    found = {"call": call, "name": known.name, "input": None}
    record = transcript.record(known.offset)
    for block in blocks(record) if record is not None else ():
        if block.get("id") == call:
            found["input"] = block.get("input")
    return found


def _below(place: SessionRef, verdict: ClaudeFindings) -> list[dict[str, Any]]:
    """The calls that subagents left open in the background, where their own call has its result."""
    found: list[dict[str, Any]] = []
    for call, file in ClaudeSubagents(place.path, place.native_id).rest():
        if call in verdict.dangling or len(found) >= _LISTED:
            continue
        try:
            with ClaudeTranscript(file) as transcript:
                facts = gather(transcript.pieces())
                left = [name for name, known in facts.calls.items() if not known.results]
                found += [{**_call(transcript, facts, name), "parent": call} for name in left]
        except OSError:
            continue
    return found
