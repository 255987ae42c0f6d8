"""How an agent is brought to its end: asked to stop, let go after its final word, ended if it stays."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from holdfast import timestamps
from holdfast.agents.driver import Decision
from holdfast.errors import IllegalChange, NotFound, StaleGeneration
from holdfast.model.commit import Commit
from holdfast.model.event import Event, NewEvent, Origin
from holdfast.model.permissions import unanswered
from holdfast.model.task import ACTIVE, ENDED, PENDING, Task
from holdfast.runner import processes
from holdfast.runner.processes import TaskProcesses
from holdfast.runner.recorder import OutputRecorder
from holdfast.settings import RunSettings
from holdfast.spool.outbox import close_input
from holdfast.spool.task_dir import Spool
from holdfast.store.store import Store

CANCEL = "cancel_requested"


class TaskRequests(NamedTuple):
    """All that was asked so far."""

    answers: dict[str, Decision]  # by the ask's id
    cancels: tuple[str, ...]  # by whom


def is_request(event: Event) -> bool:
    """Whether somebody asks something of a task with it, other than its agent."""
    if event.kind == "notice":
        return event.body.get("code") == CANCEL
    return event.kind == "permission" and event.body.get("by") not in (None, "policy")


def requests(events: Iterable[Event]) -> TaskRequests:
    """What the records of one task ask of it; of two answers to one ask the first counts."""
    answers: dict[str, Decision] = {}
    cancels: list[str] = []
    for event in events:
        body = event.body
        if event.replayed:
            continue
        if event.kind == "permission" and body.get("answer") is None:
            answers.pop(str(body.get("ask")), None)  # an agent may use an id again once it was answered
        elif event.kind == "permission" and body["answer"] in ("allow", "deny"):
            answers.setdefault(str(body.get("ask")), body["answer"])
        elif event.kind == "notice" and body.get("code") == CANCEL:
            cancels.append(str(body.get("by")))
    return TaskRequests(answers, tuple(cancels))


def cancel_event(by: str) -> NewEvent:
    """The record that asks a task to stop."""
    return NewEvent("notice", {"text": f"{by} asked the task to stop", "code": CANCEL, "by": by})


def waiting(events: Iterable[Event]) -> list[Event]:
    """The permissions of one task that wait for an answer, oldest first."""
    return unanswered((e, e.body) for e in events if e.kind == "permission" and not e.replayed)


def answer_event(asked: Event, decision: Decision, by: str) -> NewEvent:
    """The event that answers a permission; the log takes the first answer only."""
    origin = Origin("holdfast", str(asked.task), f"answer:{asked.seq}")
    return NewEvent("permission", {**asked.body, "answer": decision, "by": by}, origin=origin)


def choose(asked: list[Event], call: str | None, task: str) -> list[Event]:
    """Which of the waiting permissions are meant: the one of that call, or all."""
    found = [
        event for event in asked if call is None or call in (event.body.get("call"), event.body.get("ask"))
    ]
    if not found:
        raise NotFound(f"task {task} waits for no permission" + (f" for {call}" if call else ""))
    return found


# --- How an agent is brought to its end: asked to stop, let go after its final word, ended if it stays.

log = logging.getLogger(__name__)


class StopController:
    """What was asked of one running agent about its end, and what was done for it."""

    def __init__(
        self, task: Task, spool: Spool, family: TaskProcesses, journal: OutputRecorder, settings: RunSettings
    ):
        self.cancelled_by: str | None = None
        self._task = task
        self._spool = spool
        self._family = family
        self._journal = journal
        self._driver = journal.driver
        self._settings = settings
        self._forced = False
        self._asked_at: float | None = None  # to stop
        self._told = self._signalled = False  # that it was asked to
        self._left_at: float | None = None  # its input was closed
        self._ended = False  # it was not only asked

    async def update(self, asked: TaskRequests) -> None:
        """Take in who asked for it."""
        self._forced = len(asked.cancels) > 1
        if asked.cancels and self.cancelled_by is None:
            self.cancelled_by = asked.cancels[0]
            if self._driver.final is None:
                self._asked_at = time.monotonic()
                await self._family.note()

    async def tick(self) -> None:
        """Let go what has said its final word; end what has no time left, or was asked to go and has not."""
        if self._driver.final is not None:
            await self._let_go()
        elif self.cancelled_by is None and (limit := self._limit()) and self._age() > limit:
            by = f"its time limit of {limit:g} s"
            await self._journal.commit([cancel_event(by)])
            await self.update(TaskRequests({}, (by,)))
        if self._ended:
            return
        if self._asked_at is not None and self._driver.final is None and not self._told:
            await self._tell()
        now = time.monotonic()
        if self._asked_at is not None and (self._forced or now - self._asked_at > self._settings.grace_s):
            self._ended = True
            await self.end_all()
        elif self._left_at is not None and now - self._left_at > self._settings.leave_s:
            self._ended = True
            await self._journal.check_ownership()
            await self._family.end_agent()

    async def end_all(self) -> None:
        """End the agent and all that it started."""
        await self._journal.check_ownership()
        for process in await self._family.end():
            log.warning(
                "task %s: process %d (%s) cannot be ended", self._task.id, process.pid, process.command
            )

    async def _let_go(self) -> None:
        """End its input, so that it leaves."""
        if self._left_at is None:
            self._left_at = time.monotonic()
            if self._journal.listens:
                await self._journal.check_ownership()
                close_input(self._spool)

    async def _tell(self) -> None:
        """As the agent's protocol says it; until there is a way to say it, by a signal."""
        out = self._driver.interrupt()
        if out is not None:
            await self._journal.append(out)
            self._told = True
        elif not self._signalled:
            await self._journal.check_ownership()
            self._signalled = self._family.interrupt()

    def _limit(self) -> float | None:
        limit: float | None = self._task.options.get("time_limit_s") or self._settings.time_limit_s
        return limit

    def _age(self) -> float:
        """Seconds since the task was first begun."""
        return time.time() - timestamps.parse(self._task.started_at) if self._task.started_at else 0.0


# --- What people do to a task that is there: stop it, and answer what it asks.


async def cancel_task(store: Store, name: str, by: str, *, twice: bool = False) -> Task:
    """Ask a task to stop, in any process; one that has not started is cancelled at once.

    Of one whose agent is dead, what it has left running is ended.
    `twice`: without waiting for the agent to stop by itself.
    """
    task = await store.task(await store.resolve_task(name))
    if task.status in PENDING:
        try:
            return await store.set_status(task.id, "cancelled", reason=f"by {by}")
        except (StaleGeneration, IllegalChange):  # it has begun since, and may have ended
            task = await store.task(task.id)
    if task.status in ENDED:
        await processes.end_leftovers(store, task, by)
        return task
    wish = cancel_event(by)
    await store.commit(Commit(task.session, [wish] * (2 if twice else 1), task=task.id))
    return task


async def answer_permissions(
    store: Store, name: str, decision: Decision, by: str, *, call: str | None = None
) -> list[dict[str, Any]]:
    """Answer the permission of that call, or all that wait; the answers as they were recorded."""
    task = await store.task(await store.resolve_task(name))
    if task.status not in ACTIVE:
        raise IllegalChange(f"task {task.id} is {task.status}; it waits for no permission")
    asked = waiting(await store.task_events(task.id, ("permission",)))
    answered = []
    for event in choose(asked, call, task.id):
        said = answer_event(event, decision, by)
        if (await store.commit(Commit(task.session, [said], task=task.id))).seqs:
            answered.append(said.body)
    if not answered:
        raise IllegalChange(f"somebody else has just answered what task {task.id} asked")
    return answered
