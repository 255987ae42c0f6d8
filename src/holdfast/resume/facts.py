"""All that a verdict rests on, gathered from three witnesses: our log, the agent's store, the processes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

import msgspec

from holdfast import errors
from holdfast.agents.base import Agent
from holdfast.home import Home
from holdfast.model.event import Event
from holdfast.model.session import Session
from holdfast.model.task import ACTIVE, PENDING, OpenTask, Status, Task
from holdfast.model.token import Token, current
from holdfast.node import Node
from holdfast.resume import environment, log_evidence, store_evidence
from holdfast.resume.environment import FolderState, LiveProcess
from holdfast.resume.log_evidence import LogEvidence, MemoryGap
from holdfast.transcripts.reader import Inspection


class LastTask(msgspec.Struct, frozen=True):
    """The last task whose prompt came, or may have come, to the agent."""

    task: str
    status: Status
    answered: bool = True  # the agent has said something as its answer
    reason: str | None = None


class UnstartedTask(msgspec.Struct, frozen=True):
    """The last task, if it failed before it reached the agent: it changed nothing."""

    task: str
    status: Status
    reason: str | None = None


class ArchiveState(msgspec.Struct, frozen=True):
    """That a session is archived, and which live session has its key now."""

    by: str
    reason: str
    key: str | None = None
    holder: str | None = None


class ResumeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one session at one moment."""

    session: str
    agent: str
    token: str | None = None
    revoked: str | None = None  # why its last token must not be resumed
    elsewhere: str | None = None  # the node that it is on, if that is another one
    waiting: tuple[str, ...] = ()  # its tasks that run or wait for their turn
    last: LastTask | None = None
    missing: bool = False  # a task must have been there, and is not recorded
    trusted: bool = False  # since the last task ended somebody has said that it is sound
    trusted_by: str | None = None  # who, and why
    trusted_why: str | None = None
    not_started: UnstartedTask | None = None
    crashed: str | None = None  # what another tool recorded of a crash behind the last turn
    archived: ArchiveState | None = None
    other_protocol: str | None = None  # by which alone its conversation can be driven, and we cannot
    proven: bool = True  # the agent has taken a prompt in the conversation
    failures: tuple[str, ...] = ()  # of resumes of this token since one succeeded
    store: Inspection | None = None  # None: nothing to look for, or an agent whose history we cannot read
    owners: tuple[LiveProcess, ...] = ()  # living processes that hold the conversation
    tools: tuple[LiveProcess, ...] = ()  # living processes that its dead runs have started
    gaps: tuple[MemoryGap, ...] = ()  # what our log has and its store lacks
    folder: FolderState = FolderState()
    wanted: str | None = None  # the folder that the caller asks for
    can_fork: bool = False  # from the last whole turn
    fork_at: str | None = None  # the last record of that, where it is not the last of all
    version: str | None = None  # of the agent that would go on with it, where that was asked
    seen: int = 0  # records of the log when it was read

    @property
    def begun(self) -> bool:
        """Whether anything has happened that a next prompt could go on from."""
        return self.last is not None or (self.token is not None and self.proven)


class FactSource(Protocol):
    """The part of a store that is read."""

    async def session(self, session: str) -> Session:
        """A header."""
        ...

    async def tokens(self, session: str) -> list[Token]:
        """The lineage."""
        ...

    async def task(self, task: str) -> Task:
        """One task."""
        ...

    async def open_tasks(self, session: str) -> list[OpenTask]:
        """The tasks of a session that have not ended."""
        ...

    async def started_tasks(self, session: str, *, but: str = "", limit: int = 1) -> list[Task]:
        """The last tasks of a session that reached the agent, or may have; the latest first."""
        ...

    async def has_unsuccessful(self, session: str) -> bool:
        """Whether any task of a session was interrupted, cancelled or failed."""
        ...

    async def key_holder(self, key: str) -> str | None:
        """The live session that has the key."""
        ...

    async def events(self, session: str, after: int = 0, limit: int = 500) -> list[Event]:
        """A page of its log."""
        ...


class NativeLocation(msgspec.Struct, frozen=True):
    """Where to look."""

    home: Home
    env: Mapping[str, str]  # the agent's, as far as it tells where its store is
    node: Node


async def gather(
    source: FactSource,
    agent: Agent,
    place: NativeLocation,
    session: str,
    *,
    but: str | None = None,
    wanted: str | None = None,
) -> ResumeFacts:
    """Ask all witnesses; `but` is the task that wants to know, which is none of them."""
    header = await source.session(session)
    token, revoked = _token(await source.tokens(session), agent.name)
    unfinished = [task for task in await source.open_tasks(session) if task.id != but]
    started = await source.started_tasks(session, but=but or "")
    log = await _log(source, session)
    said = await asyncio.to_thread(log_evidence.read, log, started, token)
    idle = (*ACTIVE, *(() if but is not None else PENDING))  # those behind the one that asks do not count
    facts = ResumeFacts(
        session=session,
        agent=agent.name,
        token=None if token is None else token.native_id,
        revoked=revoked,
        elsewhere=None if place.node.owns(header.host) else header.host,
        waiting=tuple(task.id for task in unfinished if task.status in idle),
        last=_ended(said),
        missing=said.missing,
        trusted=said.trusted,
        trusted_by=said.trusted_by,
        trusted_why=said.trusted_why,
        not_started=await _not_started(source, header, but),
        crashed=said.crashed,
        archived=await _archived(source, header),
        other_protocol=_other_protocol(token, agent),
        proven=token is None or await _is_proven(source, token),
        failures=said.failures,
        wanted=wanted,
        seen=log[-1].seq if log else 0,
    )
    if facts.elsewhere is not None or any(task.status in ACTIVE for task in unfinished):
        return facts  # what runs is half done in every other witness's eyes, too
    replace = msgspec.structs.replace
    facts = replace(
        facts,
        folder=await environment.read_folder(header, said.last),
        tools=await leftovers(source, session),
    )
    if token is None or agent.history is None:
        return facts
    cut = said.last.id if said.last is not None and said.last.status in environment.DEAD else None
    seen = await asyncio.to_thread(
        store_evidence.read_store,
        agent,
        agent.history(),
        place.env,
        place.home,
        token.native_id,
        said.shown,
        cut,
    )
    # What a run that ended well has left running is meant to be; a dead run's tools are nobody's.
    dead_run = cut is not None or not store_evidence.is_whole(seen.store)
    return replace(
        facts,
        store=seen.store,
        owners=seen.owners,
        tools=tuple({*facts.tools, *(seen.tools if dead_run else ())}),
        gaps=seen.gaps,
        can_fork=seen.can_fork,
        fork_at=seen.fork_at,
    )


def _token(tokens: list[Token], agent: str) -> tuple[Token | None, str | None]:
    """The current token; where there is none, why the last one is revoked."""
    token = current(tokens, agent)
    if token is not None:
        return token, None
    revoked = [t for t in tokens if t.agent == agent and t.status == "revoked"]
    return None, (revoked[-1].reason or "") if revoked else None


def _other_protocol(token: Token | None, agent: Agent) -> str | None:
    """How a conversation is driven that is not of the mode which Holdfast drives; Cursor keeps two apart."""
    spoken = None if token is None else token.protocol or agent.unnamed_protocol
    return spoken if spoken != agent.protocols[0] else None


async def _is_proven(source: FactSource, token: Token) -> bool:
    """Whether the agent took a prompt in the conversation; else there may be none, or it holds the prompt."""
    if token.task is None:
        return True
    try:
        return (await source.task(token.task)).delivery == "accepted"
    except errors.NotFound:
        return False


async def _not_started(source: FactSource, header: Session, but: str | None) -> UnstartedTask | None:
    if header.last_task in (None, but) or header.last_status != "failed":
        return None
    task = await source.task(str(header.last_task))
    return None if log_evidence.touched(task) else UnstartedTask(task.id, task.status, task.reason)


async def _archived(source: FactSource, header: Session) -> ArchiveState | None:
    if header.state != "archived":
        return None
    note = header.archive
    holder = None if header.key is None else await source.key_holder(header.key)
    return ArchiveState(note.by if note else "", note.reason if note else "", header.key, holder)


async def leftovers(source: FactSource, session: str) -> tuple[LiveProcess, ...]:
    """The living processes of runs of this session that ended without success.

    Asked from the process table: few processes carry a mark, and a session may have thousands of tasks.
    """
    if not await source.has_unsuccessful(session):
        return ()
    processes = await asyncio.to_thread(environment.MarkedProcesses.read)
    dead = [task for task in processes.tasks() if await _ended_badly(source, session, task)]
    return processes.of(dead)


async def _ended_badly(source: FactSource, session: str, name: str) -> bool:
    try:
        task = await source.task(name)
    except errors.NotFound:  # a task of another home
        return False
    return task.session == session and task.status in environment.DEAD


def _ended(said: LogEvidence) -> LastTask | None:
    last = said.last
    return None if last is None else LastTask(last.id, last.status, said.answered, last.reason)


async def _log(source: FactSource, session: str) -> list[Event]:
    events: list[Event] = []
    while page := await source.events(session, after=events[-1].seq if events else 0):
        events += page
    return events
