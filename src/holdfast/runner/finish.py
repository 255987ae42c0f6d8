"""The end of a task whose agent is gone: what it left, its status and its outcome, in one commit."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast import durable_io
from holdfast.agents.base import Agent
from holdfast.agents.driver import AgentJob, FinalResult
from holdfast.model.changes import Deliver, SetStatus
from holdfast.model.commit import Commit, Entry
from holdfast.model.event import NewEvent
from holdfast.model.task import Status, Task
from holdfast.node import Node
from holdfast.process.table import Process
from holdfast.resume.log_evidence import NOT_LAUNCHED
from holdfast.runner import replay
from holdfast.runner.context import Context, header
from holdfast.runner.processes import shown
from holdfast.runner.recorder import OutputRecorder
from holdfast.spool import archive, task_dir
from holdfast.spool.task_dir import Spool
from holdfast.store.store import Store
from holdfast.transcripts import importer
from holdfast.transcripts.dedupe import KnownEvents

MAX_STARTS = 2  # launches of one prompt whose agent fails to start for a passing reason
NO_ROOM = "the agent's process could not be started"
MAX_TRIES = 3  # launches of one prompt whose agents were gone before they took it


class ExitFacts(NamedTuple):
    """What is known when an agent's process is gone and its stdout is read to the end."""

    final: FinalResult | None
    exit: int | None  # as the shim recorded it; None: nobody saw its end
    accepted: bool  # the agent had taken the prompt
    tries: int = 1  # launches so far, this one included
    started: bool = True  # the agent's process was; else the shim could not start it
    cancelled_by: str | None = None
    passing: bool = False  # it failed as this agent does when it cannot start for a passing reason


class TaskEnding(NamedTuple):
    """What the task becomes; `queued` gives an undelivered prompt back."""

    status: Status
    reason: str | None = None


def ending(facts: ExitFacts) -> TaskEnding:
    """What became of a task whose agent is gone."""
    final = facts.final
    if final is not None and final.ok:
        return TaskEnding("succeeded")
    if facts.cancelled_by is not None:
        return TaskEnding("cancelled", f"by {facts.cancelled_by}")
    if facts.passing and not facts.accepted and facts.tries < MAX_STARTS:
        return TaskEnding("queued", "the agent could not start for a passing reason")
    if final is not None:
        if final.cancelled:
            return TaskEnding("cancelled", final.reason or "the agent says that it was stopped")
        return TaskEnding("failed", final.reason or "the agent gave no reason")
    if facts.accepted:
        return TaskEnding("interrupted", f"the agent {_gone(facts.exit)} without a final answer")
    if not facts.started:  # the machine had no room for it: that says nothing about the agent
        return TaskEnding("queued", NO_ROOM)
    if _by_itself(facts.exit):
        return TaskEnding("failed", f"the agent {_gone(facts.exit)} before it took the prompt")
    if facts.tries >= MAX_TRIES:
        return TaskEnding("failed", f"{facts.tries} times the agent was gone before it took the prompt")
    return TaskEnding("queued", f"the agent {_gone(facts.exit)} before it took the prompt")


def _by_itself(exit_status: int | None) -> bool:
    """Whether a program ended of its own: 128+N is how a shell tells of a signal."""
    return exit_status is not None and exit_status < 128


def _gone(exit_status: int | None) -> str:
    if exit_status is None:
        return "is gone"
    if exit_status >= 128:
        return f"was ended by signal {exit_status - 128}"
    return f"exited with status {exit_status}"


# --- What an agent that died did without its stream showing it: its own store may tell more.

log = logging.getLogger(__name__)

MANY = 500  # events that go into the commit that ends a task; the next replay brings what is left


class FinalEntries(NamedTuple):
    """The last entries of a task, with what the agent's store adds to them."""

    entries: list[Entry]
    took_prompt: bool = False  # the store has the prompt, and the log has not
    level: bool = False  # with these the log has all that the store tells


async def unstreamed_events(
    context: Context, task: Task, agent: Agent, native_id: str | None, rest: Sequence[Entry]
) -> FinalEntries:
    """What the store tells of a task that ended without a final word; `rest`: what its stream left to say.

    Another tool's files may hold anything: that they cannot be read is told in the log and stops no end.
    """
    if native_id is None or agent.history is None:
        return FinalEntries(list(rest))
    known = await importer.load_known_events(context.store, task.session, agent.history())
    for entry in rest:
        if isinstance(entry, NewEvent) and not _is_interrupted(entry):
            known.add(entry)
    try:
        return await _read_unstreamed(context, task, agent, native_id, rest, known)
    except Exception as problem:  # of that tool's files only: what is wrong with our own store was said above
        log.exception("task %s: the end of %s", task.id, native_id)
        text = f"what {agent.title} itself recorded could not be read: {type(problem).__name__}: {problem}"
        return FinalEntries([*rest, NewEvent("error", {"text": text, "code": "replay_failed"})])


async def _read_unstreamed(
    context: Context, task: Task, agent: Agent, native_id: str, rest: Sequence[Entry], known: KnownEvents
) -> FinalEntries:
    found = await replay.place_of(context, agent, native_id)
    if found is None:
        return FinalEntries(list(rest))
    reader, place = found
    events = await asyncio.to_thread(lambda: list(islice(known.missing(reader.events(place)), MANY + 1)))
    entries = merge(rest, events[:MANY])
    if any(isinstance(entry, NewEvent) and entry.replayed for entry in entries):
        entries.append(importer.replay_marker(place))
    took = any(
        event.kind == "user" and task.prompt.strip() in str(event.body.get("text")) for event in events
    )
    return FinalEntries(entries, took, len(events) <= MANY)


def merge(rest: Sequence[Entry], unseen: Sequence[NewEvent]) -> list[Entry]:
    """One end for each call: the store's where it has one, else the one that says that none is known."""
    replayed = [replace(event, replayed=True) for event in unseen]
    ends = {e.body.get("call"): e for e in replayed if e.kind == "tool_summary" and not _is_interrupted(e)}
    merged: list[Entry] = []
    closed = set()
    for entry in rest:
        if isinstance(entry, NewEvent) and _is_interrupted(entry):
            call = entry.body.get("call")
            closed.add(call)
            entry = ends.get(call, entry)
        merged.append(entry)
    others = [e for e in replayed if not (e.kind == "tool_summary" and e.body.get("call") in closed)]
    return [*merged, *others]


def _is_interrupted(event: NewEvent) -> bool:
    return event.kind == "tool_summary" and event.body.get("outcome") == "interrupted"


# --- The end of a task whose agent is gone: what it left, its status and its outcome, in one commit.

GIVEN_BACK = "given_back"  # a launch whose agent never took the prompt
REASON = 1000  # characters of an agent's words in a task's reason; all of them are in its error
ANSWER_KEPT = 100_000  # characters of the last answer in the outcome
STDERR_SHOWN = 4000  # characters of stderr in the outcome of a task that failed


class TaskFinisher:
    """Ends one task."""

    def __init__(self, task: Task, agent: Agent, job: AgentJob, spool: Spool, journal: OutputRecorder):
        self._task = task
        self._agent = agent
        self._job = job
        self._spool = spool
        self._journal = journal

    async def settle(
        self,
        cancelled_by: str | None,
        survivors: Sequence[Process],
        left: list[str],
        told: FinalEntries,
        branch: str | None,
    ) -> None:
        """Decide, commit, and put the spool away; `left`: the paths that it leaves uncommitted."""
        driver = self._journal.driver
        seen = driver.accepted or self._task.delivery == "accepted"
        facts = ExitFacts(
            final=driver.final,
            exit=self._spool.exit_status(),
            accepted=seen or told.took_prompt,
            tries=1 + task_dir.retired(self._spool),
            cancelled_by=cancelled_by,
            passing=self._agent.is_start_failure(self._last_words()),
            started=self._spool.is_agent_recorded(),
        )
        decided = ending(facts)
        if decided.status == "queued":  # whoever launches it next puts this folder out of the way
            text = f"{decided.reason}; it is queued again"
            code = GIVEN_BACK if facts.started else NOT_LAUNCHED
            # Of the launch, not of the worker that ends it: by this the folder is known again.
            launched = self._spool.launch().get("generation")
            given_back = _notice(code, text, generation=launched)
            await self._journal.commit([given_back, _become(decided)], last=True)
            return
        entries = [*told.entries]
        if told.took_prompt and not seen:
            entries.append(Deliver(delivery="accepted"))
        if survivors:
            entries.append(_still_running(survivors))
        outcome = self._outcome(facts, decided, survivors)
        if left:
            outcome["left"] = left
        if branch is not None:
            outcome["branch"] = branch
        if self._journal.kept:
            with durable_io.reported(self._spool.keep):
                os.close(os.open(self._spool.keep, os.O_WRONLY | os.O_CREAT, 0o600))
        await self._journal.commit([*entries, _become(decided, outcome)])
        await asyncio.to_thread(archive.compress, self._spool)

    def _last_words(self) -> str:
        """What the agent said of its end."""
        final = self._journal.driver.final
        return f"{self._spool.stderr_tail(STDERR_SHOWN)}\n{final.reason if final is not None else ''}"

    def _outcome(self, facts: ExitFacts, decided: TaskEnding, survivors: Sequence[Process]) -> dict[str, Any]:
        driver = self._journal.driver
        outcome: dict[str, Any] = {"exit": facts.exit, "native_id": driver.native_id or self._job.native_id}
        if self._job.resume:
            outcome["resumed"] = driver.native_id == self._job.native_id
        if facts.final is not None:
            outcome["usage"] = facts.final.usage
            answer = facts.final.answer
            outcome["answer"] = answer if answer is None else answer[:ANSWER_KEPT]
            if answer is not None and len(answer) > ANSWER_KEPT:
                outcome["answer_cut"] = True  # all of it is in the log
        if self._journal.links:
            outcome["links"] = self._journal.links
        if survivors:
            outcome["survivors"] = shown(survivors)
        if decided.status != "succeeded":
            outcome["stderr"] = self._spool.stderr_tail(STDERR_SHOWN)
        return outcome


def refusal(
    task: Task, status: Status, reason: str, events: Sequence[NewEvent], outcome: dict[str, Any]
) -> Commit:
    """The commit that ends a task which never came to a process."""
    entries: list[Entry] = [*events, SetStatus(status=status, reason=reason, outcome=outcome)]
    return Commit(task.session, entries, task=task.id, generation=task.generation)


def _become(decided: TaskEnding, outcome: dict[str, Any] | None = None) -> SetStatus:
    reason = None if decided.reason is None else header(decided.reason, REASON)
    return SetStatus(status=decided.status, reason=reason, outcome=outcome)


def _notice(code: str, text: str, **facts: Any) -> NewEvent:
    return NewEvent("notice", {"text": text, "code": code, **facts})


def _still_running(survivors: Sequence[Process]) -> NewEvent:
    named = ", ".join(f"{os.path.basename(p.command.split(' ')[0])} ({p.pid})" for p in survivors)
    return _notice("survivors", f"still running: {named}", processes=shown(survivors))


# --- Sessions whose last task is missing: a run has brought their token, and no log tells of that run.

CODE = "last_unrecorded"  # as the verdict calls it
TEXT = (
    "the task that recorded this session's token is missing from the log; "
    "the next dispatch starts a new conversation"
)


async def note_missing_tasks(store: Store, node: Node) -> list[dict[str, Any]]:
    """Add a notice to the log of each session of this node, once; what a start reports."""
    settled = []
    for name in sorted(node.names):
        for session in await store.unrecorded(name, CODE):
            await store.commit(Commit(session, [NewEvent("notice", {"text": TEXT, "code": CODE})]))
            settled.append({"task": None, "session": session, "status": "missing", "reason": TEXT})
    return settled
