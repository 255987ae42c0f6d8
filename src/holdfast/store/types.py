"""What every store promises. SQLite and PostgreSQL keep it alike; one test suite runs on both.

Acknowledged means durable: a call that returns has its records on disk. A call that raises a
`Refused` or `BadInput` has changed nothing. No call shortens or rewrites a log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple, Protocol, Unpack

from holdfast.errors import HoldfastError
from holdfast.model.changes import Create
from holdfast.model.commit import Commit
from holdfast.model.event import Event, NewEvent
from holdfast.model.session import Header, Link, Session, Worktree
from holdfast.model.task import Delivery, OpenTask, Owner, QueueEntry, Status, Task
from holdfast.model.token import ResumeTarget, Token
from holdfast.node import Node
from holdfast.store.reads import ALL, Filters


class CommitResult(NamedTuple):
    """What a commit came to."""

    seqs: range  # the records it added
    dropped: int  # events whose origin the log had already
    unchanged: int  # changes that said what was so already


class SessionPage(NamedTuple):
    """Some headers and where the next page begins (None: that was all)."""

    sessions: list[Session]
    next: str | None


class ChangeFeedEntry(NamedTuple):
    """One record, in the order in which all sessions were written."""

    cursor: str
    session: str
    event: Event


class ChangeFeedPage(NamedTuple):
    """What happened after a cursor."""

    changes: list[ChangeFeedEntry]
    cursor: str  # to go on from
    gap: bool  # the cursor given was of another database, ahead or garbage: this is from the start
    more: bool  # there is more already


class SessionReplacement(NamedTuple):
    """The session whose key and waiting prompts a new one takes over; it is archived, token and log stay."""

    session: str
    by: str
    reason: str
    moved: tuple[str, int] | None = None  # its task that goes on in the new one, and that task's generation


class Dispatch(NamedTuple):
    """A prompt on its way into the queue, and what must still be so when it gets there."""

    session: str  # an existing one, or the id of the new one
    prompt: str
    options: dict[str, Any]
    retry_of: str | None = None
    create: Create | None = None  # the new one
    replaces: SessionReplacement | None = None
    seen: int | None = None  # records of the log that was judged: of the one replaced, else of the session
    queue: bool = False  # behind what runs or waits there; else that refuses it
    events: tuple[NewEvent, ...] = ()  # said with it
    task: str | None = None  # the id that the caller wants; the same dispatch made twice is one task
    unarchive_by: str | None = None  # who brings the session back; `replaces` then names who has its key


class Count(NamedTuple):
    """How many there are of a kind."""

    kind: str  # a state of sessions, or a status of tasks
    of: str  # an agent, or a day
    many: int


class PendingPermission(NamedTuple):
    """A permission that an agent waits for."""

    session: str
    task: str
    at: str
    body: dict[str, Any]  # as in its event


class StoreOverview(NamedTuple):
    """What a store holds, in numbers."""

    sessions: list[Count]  # by state and agent, but for the empty ones
    tasks: list[Count]  # by status and agent
    days: list[Count]  # tasks that ended, by status and day
    interrupted: list[Task]  # last tasks of live sessions that were: the latest of them
    waiting: int  # how many of these there are


class Store(Protocol):
    """The log of all sessions, its views, and news of them."""

    node: Node | None  # of the home that this store was opened with; None without a home

    # --- the log

    async def commit(self, commit: Commit) -> CommitResult:
        """Add events and changes to a session's log, with the spool offset they bring, all or nothing.

        A repeated origin is dropped and counted. With a generation, refused unless the task is still
        active in that generation.
        """
        ...

    async def commit_all(self, commits: Sequence[Commit]) -> list[CommitResult | HoldfastError]:
        """Several commits in as few transactions as may be; each is taken, or refused, by itself."""
        ...

    async def events(self, session: str, after: int = 0, limit: int = 500) -> list[Event]:
        """Records after a seq, in order; an empty list means that was all."""
        ...

    async def event_lines(self, session: str, after: int = 0, limit: int = 500) -> list[str]:
        """The same as JSON lines of the wire format, bodies as they were stored."""
        ...

    # --- sessions

    async def create_session(
        self,
        agent: str,
        *,
        key: str | None = None,
        cwd: str | None = None,
        host: str | None = None,
        title: str | None = None,
        worktree: Worktree | None = None,
        link: Link | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Session:
        """A new live session; KeyTaken if another live one has the key."""
        ...

    async def resolve(self, name: str) -> str:
        """The id of the session meant by an id, a unique beginning of one, or a key."""
        ...

    async def session(self, session: str) -> Session:
        """The header of a session, in the trash or not."""
        ...

    async def sessions(
        self,
        *,
        state: str = "present",
        agent: str = "",
        key: str = "",
        text: str = "",
        status: str = "",
        empty: bool = False,
        before: str | None = None,
        limit: int = 50,
    ) -> SessionPage:
        """Headers, the latest first. `state`: live, archived, deleted, present (not deleted) or all.

        `status` is that of their last task.
        """
        ...

    async def headers(
        self, *, before: str | None = None, limit: int = 50, **filters: Unpack[Filters]
    ) -> tuple[list[Header], str | None]:
        """A page as `sessions` gives it, without metadata: for long lists."""
        ...

    async def key_holder(self, key: str) -> str | None:
        """The live session that has the key, if there is one."""
        ...

    async def patch_metadata(self, session: str, patch: dict[str, Any], version: int) -> Session:
        """Merge a JSON merge patch into the metadata; VersionMismatch carries the current value."""
        ...

    async def describe(self, session: str, **given: Any) -> Session:
        """Set title, cwd, worktree, link or key; what is not given stays."""
        ...

    async def archive(self, session: str, by: str, reason: str) -> Session:
        """Put it away with a note. Its key is free; its tokens and queued prompts stay."""
        ...

    async def unarchive(self, session: str, by: str) -> Session:
        """Take it out again; KeyTaken if its key has found another live session."""
        ...

    async def delete(self, session: str, by: str, reason: str) -> Session:
        """Tombstone first, then into the trash. SessionRunning while a task runs."""
        ...

    async def restore(self, session: str, by: str) -> Session:
        """Out of the trash, as it was."""
        ...

    # --- tokens

    async def see_token(
        self,
        session: str,
        agent: str,
        native_id: str,
        *,
        protocol: str | None = None,
        seen_in: str = "stream",
        task: str | None = None,
    ) -> bool:
        """Record the agent's id; a new one becomes current, the same one changes nothing (False)."""
        ...

    async def revoke_token(self, session: str, agent: str, native_id: str, reason: str) -> None:
        """The token must not be resumed any more; it stays in the lineage."""
        ...

    async def reinstate_token(self, session: str, agent: str, native_id: str, reason: str) -> None:
        """Take a revocation back."""
        ...

    async def tokens(self, session: str) -> list[Token]:
        """The lineage, oldest first."""
        ...

    async def sessions_of_token(self, agent: str, native_id: str) -> list[str]:
        """The sessions that ever had that token."""
        ...

    async def resume_target(self, session: str) -> ResumeTarget:
        """What a launcher needs to go on; NoToken if there is nothing to go on with."""
        ...

    # --- tasks

    async def enqueue(
        self,
        session: str,
        prompt: str,
        *,
        options: dict[str, Any] | None = None,
        retry_of: str | None = None,
    ) -> Task:
        """Queue a prompt; with `retry_of`, at most one retry of that task is ever made."""
        ...

    async def dispatch(self, dispatch: Dispatch) -> Task:
        """Queue a prompt where a judgement has found that it belongs, all or nothing.

        SessionRunning, with the task, while one runs or waits there; PlanChanged if the log has grown
        since it was judged. A session that is replaced is archived and its waiting prompts go with the key.
        With `unarchive_by` an archived session is brought back for it, and takes its key back from the
        session that it replaces, where nothing may run or wait.
        """
        ...

    async def resolve_task(self, name: str) -> str:
        """The id of the task that `name` is, or is the unique beginning of."""
        ...

    async def task(self, task: str) -> Task:
        """One task."""
        ...

    async def tasks(self, *, session: str = "", status: str = "", limit: int = ALL) -> list[Task]:
        """All tasks in the order they were queued; the number has no bound, so no decision asks for it."""
        ...

    async def open_tasks(self, session: str) -> list[OpenTask]:
        """The tasks of a session that have not ended, in the order they were queued."""
        ...

    async def first_task(self, session: str) -> Task | None:
        """The task of a session that was queued first."""
        ...

    async def started_tasks(self, session: str, *, but: str = "", limit: int = 1) -> list[Task]:
        """The last tasks of a session that reached the agent, or may have; the latest first, without `but`.

        A task that was only queued, or whose launch failed, has changed nothing and is not among them.
        """
        ...

    async def first_started_task(self, session: str) -> Task | None:
        """The first task of a session that reached the agent, or may have."""
        ...

    async def started_count(self, session: str) -> int:
        """How many tasks of a session reached the agent, or may have."""
        ...

    async def has_unsuccessful(self, session: str) -> bool:
        """Whether any task of a session was interrupted, cancelled or failed."""
        ...

    async def redispatchable_tasks(self, key: str = "") -> list[Task]:
        """The interrupted tasks that can still be run again, of one key or of all, in the order queued.

        Each is the last task that was started in a live session, and has no retry yet.
        """
        ...

    async def key_has_tasks(self, key: str) -> bool:
        """Whether any session of a key, live or not, has a task."""
        ...

    async def delivered_tasks(self, key: str, delivery: str) -> list[Task]:
        """The tasks of a key's sessions whose source names that delivery of a forge."""
        ...

    async def turns(self) -> list[QueueEntry]:
        """Tasks that run, and queued ones of live sessions, in the order they were queued."""
        ...

    async def unrecorded(self, host: str, code: str) -> list[str]:
        """Live sessions there whose token an unrecorded run has brought, but those told of with `code`."""
        ...

    async def latest_tasks(
        self, *, session: str = "", status: str = "", cwd: str = "", day: str = "", limit: int = 50
    ) -> list[Task]:
        """Tasks of a session, or of all sessions in a folder, the one queued last first.

        `day`: that they ended on (UTC, as 2026-01-31), or were queued on where they have not ended.
        """
        ...

    async def task_events(self, task: str, kinds: tuple[str, ...]) -> list[Event]:
        """The records of some kinds that are one task's, in order."""
        ...

    async def claim(self, task: str, generation: int, owner: Owner, lease_s: float) -> Task:
        """Become the one owner of a task that is still in that generation.

        SessionRunning if another task drives the same session or native conversation; prompts of an
        archived session wait until it is taken out. Taking over
        an active task is allowed: that its owner is dead is the caller's to know.
        """
        ...

    async def claim_next(
        self,
        owner: Owner,
        lease_s: float,
        *,
        agents: frozenset[str] | None = None,
        any_host: bool = False,
    ) -> Task | None:
        """Claim the first queued task that may run now for this owner's host and agents."""
        ...

    async def renew(self, task: str, generation: int, lease_s: float) -> None:
        """Lengthen the lease; StaleGeneration if another owner has the task. Not a record."""
        ...

    async def set_status(
        self,
        task: str,
        status: Status,
        *,
        generation: int | None = None,
        reason: str | None = None,
        outcome: dict[str, Any] | None = None,
    ) -> Task:
        """Move a task on; an active one only by its owner's generation."""
        ...

    async def deliver(self, task: str, delivery: Delivery, generation: int) -> Task:
        """Note how far the prompt has come to the agent."""
        ...

    # --- news

    async def cursor(self) -> str:
        """The present end of the change feed."""
        ...

    async def changes(self, after: str | None = None, limit: int = 500) -> ChangeFeedPage:
        """Records of all sessions after a cursor, in commit order."""
        ...

    def follow(self, after: str | None = None) -> AsyncIterator[ChangeFeedPage]:
        """`changes` without end, also of what other processes and hosts write; none is missed."""
        ...

    # --- all of it

    async def overview(self, since: str, limit: int = 100) -> StoreOverview:
        """All in numbers; of the tasks that ended since then, by day."""
        ...

    async def asked(self) -> list[PendingPermission]:
        """The permissions that wait for an answer, of tasks that run."""
        ...

    async def mark(self) -> object | None:
        """Another one whenever anything was committed, by whatever process; None where that is not known."""
        ...

    async def native_ids(self, agent: str) -> set[str]:
        """The agent's own ids of the conversations that are here."""
        ...

    # --- its life

    async def close(self) -> None:
        """Finish what was handed in, bring the mirrors level, let go of everything."""
        ...
