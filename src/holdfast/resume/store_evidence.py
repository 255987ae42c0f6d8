"""The agent's own store as a witness: what it will remember, who holds it, where it could be forked."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.agents.base import Agent
from holdfast.home import Home
from holdfast.model.event import Event
from holdfast.resume.environment import LiveProcess
from holdfast.resume.log_evidence import MemoryGap, gap, leaves_out
from holdfast.transcripts.reader import (
    Inspection,
    SessionRef,
    TranscriptProblem,
    TranscriptReader,
)

log = logging.getLogger(__name__)

OWNER, TOOLS, UNREADABLE = "live_owner", "tools_running", "store_unreadable"
_RECORD = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class StoreEvidence(msgspec.Struct, frozen=True):
    """What was found of one conversation."""

    store: Inspection
    owners: tuple[LiveProcess, ...] = ()
    tools: tuple[LiveProcess, ...] = ()
    gaps: tuple[MemoryGap, ...] = ()
    can_fork: bool = False
    fork_at: str | None = None


def read_store(
    agent: Agent,
    reader: TranscriptReader,
    env: Mapping[str, str],
    home: Home,
    native_id: str,
    shown: Sequence[Event],
    cut: str | None = None,
) -> StoreEvidence:
    """Ask the store; another tool's files may hold anything, and what cannot be read is not sound.

    `cut`: the last task, if it did not come to its end. An id that the agent cannot have finds nothing.
    """
    if not agent.is_native_id(native_id):
        text = f"{native_id[:100]!r} is not a conversation id of {agent.title}"
        return _nothing(agent, native_id, TranscriptProblem("bad_native_id", text))
    try:
        return _look(agent, reader, reader.root(env), home, native_id, shown, cut)
    except Exception as problem:
        log.exception("the store of %s cannot be read", agent.name)
        said = TranscriptProblem(UNREADABLE, f"its store cannot be read: {type(problem).__name__}: {problem}")
        return _nothing(agent, native_id, said)


def _nothing(agent: Agent, native_id: str, problem: TranscriptProblem) -> StoreEvidence:
    """A conversation of which nothing can be read."""
    return StoreEvidence(
        Inspection(agent=agent.name, native_id=native_id, path=None, sound=False, problems=[problem])
    )


def is_whole(store: Inspection) -> bool:
    """Whether its last turn has ended with no call open."""
    return store.turns > 0 and store.last_complete == store.turns and not store.dangling


def _look(
    agent: Agent,
    reader: TranscriptReader,
    root: str,
    home: Home,
    native_id: str,
    shown: Sequence[Event],
    cut: str | None,
) -> StoreEvidence:
    from holdfast.transcripts.inspect import (
        inspect_session,
    )  # late: a session's first task has no past to look at

    found = inspect_session(reader, root, native_id, home)
    problems = [problem for problem in found.problems if problem.code not in (OWNER, TOOLS)]
    owners, tools = _processes(found.problems, OWNER), _processes(found.problems, TOOLS)
    alive = len(problems) < len(found.problems)
    places = reader.find(root, native_id) if found.path is not None else []
    # Where the processes alone were against it, the store itself has still to be asked.
    sound = reader.inspect(places[0]).sound and not _parted(problems) if alive and places else found.sound
    cwd = None if found.cwd is None else os.path.realpath(found.cwd)
    store = msgspec.structs.replace(found, problems=problems, sound=sound, cwd=cwd)
    if len(places) != 1:
        return StoreEvidence(store, owners, tools)
    said = reader.wording
    turns = store.last_complete or 0
    if cut is not None and not leaves_out(cut, shown, reader.events(places[0]), turns, said):
        cut = None
    gaps = tuple(gap(shown, reader.events(places[0]), said, cut))
    can_fork, fork_at = _fork(agent, reader, places[0], store)
    return StoreEvidence(store, owners, tools, gaps, can_fork, fork_at)


def _parted(problems: list[TranscriptProblem]) -> bool:
    return any(problem.code in ("shrunk", "rewritten", "missing") for problem in problems)


def _processes(problems: list[TranscriptProblem], code: str) -> tuple[LiveProcess, ...]:
    named: list[dict[str, Any]] = [
        process for problem in problems if problem.code == code for process in problem.evidence["processes"]
    ]
    return tuple(LiveProcess(int(process["pid"]), str(process["command"])) for process in named)


def _fork(
    agent: Agent, reader: TranscriptReader, place: SessionRef, store: Inspection
) -> tuple[bool, str | None]:
    """Whether it can be forked after its last whole turn, and at which record where turns came behind it."""
    if agent.forks is None or store.last_complete is None:
        return False, None
    if is_whole(store):
        return True, None
    if agent.forks == "whole":
        return False, None
    if not agent.chooses_id:
        return True, None  # over ACP no record can be named; what is cut short is left out by the agent
    record = _end_of(reader, place, store.last_complete)
    return record is not None, record


def _end_of(reader: TranscriptReader, place: SessionRef, turn: int) -> str | None:
    """The record that has the last words of a turn."""
    number, found = 0, None
    for event in reader.events(place):
        number += event.kind == "user"
        if number == turn and event.kind == "assistant" and event.origin is not None:
            match = _RECORD.match(event.origin.record_id)
            found = match.group() if match else found
    return found
