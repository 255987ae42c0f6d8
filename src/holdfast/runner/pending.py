"""Tasks that have not started: which may start, and which wait for what.

A task is judged before it is claimed, so one that has to wait takes no run slot.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NamedTuple

from holdfast import errors, shortage, timestamps
from holdfast.model.changes import SetStatus
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.task import ACTIVE, PENDING, QueueEntry, Task
from holdfast.resume.environment import LiveProcess
from holdfast.runner import launch, queue
from holdfast.runner.context import Context, header
from holdfast.runner.finish import REASON
from holdfast.runner.processes import ProcessTableCache
from holdfast.runner.queue import candidate
from holdfast.runner.recorder import PASSING
from holdfast.runner.waiting import policy_of

log = logging.getLogger(__name__)

# What a judgment used has changed since: judge again.
CHANGED = (errors.StaleGeneration, errors.PlanChanged, errors.KeyTaken)

MAX_FAILURES = 3  # judgments of one task that fail in themselves before the task does
CLEARED_S = 5.0  # for so long a judgment counts that did not lead to a claim
AGAIN_S, SELDOM_S = 2.0, 60.0  # before a task that waits is judged again though nothing changed
MAX_AGE_S = 1.0  # of the process table that a waiting task is compared with


class StartClearance(NamedTuple):
    """A task may start, as long as its session is as it was judged."""

    generation: int
    seen: int  # records of its session's log
    until: float


class PendingWait(NamedTuple):
    """What a waiting task waits for, and when it is judged again if nothing changes."""

    session: str
    processes: frozenset[LiveProcess]
    pause: float
    at: float  # monotonic


class PendingTasks:
    """Judges the tasks of one worker that have not started."""

    def __init__(self, context: Context, process_table: ProcessTableCache, wake: Callable[[], None]):
        """`wake` is called when a task was judged."""
        self.cleared: dict[str, StartClearance] = {}
        self._context = context
        self._store = context.store
        self._process_table = process_table
        self._wake = wake
        self._failures: dict[str, int] = {}
        self._waits: dict[str, PendingWait] = {}
        self._ready: set[str] = set()  # waiting tasks that lack only a slot
        self._judging: dict[str, asyncio.Task[None]] = {}

    def running(self) -> list[asyncio.Task[None]]:
        """The judgments that are under way."""
        return [*self._judging.values()]

    def on_event(self, session: str, task: str | None) -> None:
        """Something happened in a session: what waits for it is judged again."""
        for name, wait in self._waits.items():
            if wait.session == session and task != name:
                self._waits[name] = wait._replace(at=0.0)

    def startable(self, entries: list[QueueEntry], held: Collection[str]) -> list[str]:
        """The tasks of this node whose turn it is."""
        here = [entry for entry in entries if self._context.node.owns(entry.host)]
        active = [candidate(entry) for entry in here if entry.status in ACTIVE]
        pending = [candidate(entry) for entry in here if entry.status in PENDING]
        settings = self._context.settings
        at_once, limit_of = settings.run.at_once, lambda agent: settings.of(agent).at_once
        return queue.startable(pending, active, at_once, limit_of, held)

    def _due_without_slot(self, entries: list[QueueEntry], held: Collection[str]) -> set[str]:
        """The waiting tasks to judge again whether or not a slot is free: their wait has a bound."""
        names = {entry.task for entry in entries if entry.status == "waiting"} - self._ready
        sessions = {entry.session for entry in entries if entry.task in names}
        here = [entry for entry in entries if entry.session in sessions]
        active = [candidate(entry) for entry in here if entry.status in ACTIVE]
        pending = [candidate(entry) for entry in here if entry.status in PENDING]
        return {*queue.startable(pending, active, len(here) + 1, lambda _: None, held)} & names

    async def judge(self, entries: list[QueueEntry], ours: set[str]) -> None:
        """Begin to judge the tasks that have their turn, and those whose wait may be over."""
        now = time.monotonic()
        self.cleared = {
            entry.task: cleared
            for entry in entries
            if (cleared := self.cleared.get(entry.task)) is not None
            and cleared.until > now
            and cleared.generation == entry.generation
            and entry.status in PENDING
        }
        self._waits = {entry.task: self._waits[entry.task] for entry in entries if entry.task in self._waits}
        held = await self._unchanged({entry.task for entry in entries if entry.status == "waiting"})
        for entry in entries:
            if entry.status == "waiting" and entry.not_before is not None:
                held |= {entry.task} if entry.not_before > timestamps.now() else set()
        self._ready &= {entry.task for entry in entries if entry.status == "waiting"}
        with_slot = {*self.startable(entries, held)}
        due = (with_slot | self._due_without_slot(entries, held)) & ours
        for name in due - {*self.cleared} - {*self._judging}:
            judging = asyncio.create_task(self._judge_one(name, name in with_slot), name=f"judge {name}")
            judging.add_done_callback(self._judged)
            self._judging[name] = judging

    def _judged(self, judging: asyncio.Task[None]) -> None:
        if not judging.cancelled() and judging.exception() is None:  # else at the next look
            self._wake()

    async def _unchanged(self, waiting: set[str]) -> set[str]:
        """The waiting tasks that need no new judgment: what they wait for is as it was."""
        known = {name: self._waits[name] for name in waiting if name in self._waits}
        if not known:
            return set()
        now = time.monotonic()
        table: set[tuple[int, str]] = set()
        if any(wait.processes for wait in known.values()):
            processes = await self._process_table.look(now - MAX_AGE_S)
            table = {(process.pid, process.command) for process in processes.table.values()}
        return {
            name
            for name, wait in known.items()
            if now < wait.at and all((one.pid, one.command) in table for one in wait.processes)
        }

    async def _judge_one(self, name: str, has_slot: bool) -> None:
        task = await self._store.task(name)
        session = await self._store.session(task.session)
        try:
            judged = await launch.judge_pending(self._context, task, session)
        except errors.HoldfastError as problem:
            if isinstance(problem, (*PASSING, *CHANGED)) or shortage.resource_of(problem) is not None:
                raise
            await self._refuse(task, problem)
            return
        now = time.monotonic()
        if judged.seen is not None and not has_slot:
            await self._end_wait(task)
        elif judged.seen is not None:
            self.cleared[name] = StartClearance(task.generation, judged.seen, now + CLEARED_S)
        elif judged.step is not None:
            before = self._waits.get(name)
            same = before is not None and before.processes == judged.processes
            pause = min(before.pause * 2, SELDOM_S) if before is not None and same else AGAIN_S
            rest = min(pause, *[each for each in judged.step.decided_in if each > 0], SELDOM_S)
            self._waits[name] = PendingWait(task.session, judged.processes, pause, now + rest)

    async def _end_wait(self, task: Task) -> None:
        """Its wait is over, but no slot is free: it is queued again, and judged again when one is.

        A task whose policy ignores leftovers goes on waiting: as a queued task it would begin a new wait.
        """
        if policy_of(task, self._context.settings).leftovers == "ignore":
            self._ready.add(task.id)
            return
        change = SetStatus(status="queued", reason="its wait is over")
        with suppress(errors.Refused, errors.NotFound):  # it is claimed or cancelled meanwhile, or deleted
            await self._store.commit(Commit(task.session, [change], task=task.id))

    async def _refuse(self, task: Task, problem: errors.HoldfastError) -> None:
        """It cannot start, and waiting would not help: say why, and end it."""
        event = NewEvent("error", {"text": problem.message, "code": problem.code, "hint": problem.hint})
        outcome = {"code": problem.code, "hint": problem.hint}
        change = SetStatus(status="failed", reason=header(problem.message, REASON), outcome=outcome)
        with suppress(errors.Refused, errors.NotFound):  # somebody has it meanwhile, or it is deleted
            await self._store.commit(Commit(task.session, [event, change], task=task.id))

    async def reap(self) -> None:
        """Take the judgments that are done; a task that cannot be judged at all fails."""
        for name, judging in list(self._judging.items()):
            if not judging.done():
                continue
            del self._judging[name]
            problem = judging.exception()
            if problem is None or isinstance(problem, CHANGED):  # looked at again at the next turn
                continue
            if self._context.shortages.note_problem(problem):
                log.warning("task %s cannot be judged yet: %s", name, problem)
                continue
            if isinstance(problem, PASSING):
                log.warning("task %s cannot be judged yet: %s", name, problem.message)
                continue
            log.error("task %s could not be judged", name, exc_info=problem)
            self._failures[name] = self._failures.get(name, 0) + 1
            if self._failures[name] >= MAX_FAILURES:
                text = f"Holdfast could not judge this task: {type(problem).__name__}: {problem}"
                await self._refuse(await self._store.task(name), errors.HoldfastError(text))
