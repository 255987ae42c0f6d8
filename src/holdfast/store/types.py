"""The values that a store takes and returns."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.model.changes import Create
from holdfast.model.event import Event, NewEvent
from holdfast.model.session import Session
from holdfast.model.task import Task


class CommitResult(NamedTuple):
    """What a commit added."""

    seqs: range  # the records it added
    dropped: int  # events whose origin was already in the log
    unchanged: int  # changes without effect


class SessionPage(NamedTuple):
    """Some headers and the cursor of the next page (None: this was the last one)."""

    sessions: list[Session]
    next: str | None


class ChangeFeedEntry(NamedTuple):
    """One record, in the commit order of all sessions."""

    cursor: str
    session: str
    event: Event


class ChangeFeedPage(NamedTuple):
    """The changes after a cursor."""

    changes: list[ChangeFeedEntry]
    cursor: str  # to continue from
    gap: bool  # the cursor was of another database, ahead or invalid: this page is the first
    more: bool  # there are more changes


class Notification(NamedTuple):
    """One message for people, on one channel: it waits in the outbox until it is sent, or not needed."""

    id: str  # the same occasion on the same channel has the same
    node: str  # whose hub sends it
    channel: str
    kind: str
    session: str
    task: str | None
    body: str  # JSON
    created_at: str
    due_at: str
    status: str = "waiting"  # waiting | sent | cancelled | failed
    tries: int = 0
    problem: str | None = None  # why it was not sent, the last time
    ended_at: str | None = None


class SessionReplacement(NamedTuple):
    """A session whose key and queued prompts a new one takes over. It is archived; token and log stay."""

    session: str
    by: str
    reason: str
    moved: tuple[str, int] | None = None  # its task that continues in the new one, and that task's generation


class Dispatch(NamedTuple):
    """A prompt to queue, and the state that it requires."""

    session: str  # an existing one, or the id of a new one
    prompt: str
    options: dict[str, Any]
    retry_of: str | None = None
    create: Create | None = None  # creates the new one
    replaces: SessionReplacement | None = None
    seen: int | None = None  # records at the verdict: of the replaced session, else of this one
    queue: bool = False  # queue behind other tasks; otherwise an open task refuses it
    events: tuple[NewEvent, ...] = ()  # added with the prompt
    task: str | None = None  # the id for the task; dispatching the same id twice makes one task
    unarchive_by: str | None = None  # who unarchives the session; `replaces` then names the holder of its key


class Count(NamedTuple):
    """A count of sessions or tasks."""

    kind: str  # a session state or a task status
    of: str  # an agent or a day
    many: int


class PendingPermission(NamedTuple):
    """A permission that an agent waits for."""

    session: str
    task: str
    at: str
    body: dict[str, Any]  # of its event


class StoreOverview(NamedTuple):
    """Counts of what a store holds."""

    sessions: list[Count]  # by state and agent, without empty sessions
    tasks: list[Count]  # by status and agent
    days: list[Count]  # tasks that ended, by status and day
    interrupted: list[Task]  # last tasks of live sessions that were interrupted, the latest
    waiting: int  # the number of all such tasks
