"""The values that a store takes and returns."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.model.changes import Create
from holdfast.model.event import Event, NewEvent
from holdfast.model.session import Session
from holdfast.model.task import Task


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
