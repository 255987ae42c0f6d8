"""The worker: takes over what runs without an owner, and starts what is queued."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from typing import Any

import msgspec

from holdfast import errors, timestamps
from holdfast.model.event import Event, NewEvent
from holdfast.model.task import ACTIVE, ENDED, PENDING, Owner, QueueEntry
from holdfast.process import identity
from holdfast.runner import finish, sessions
from holdfast.runner.context import Context, header
from holdfast.runner.control import is_request
from holdfast.runner.finish import REASON, refusal
from holdfast.runner.pending import PendingTasks, StartClearance
from holdfast.runner.processes import ProcessTableCache
from holdfast.runner.queue import queue_lock
from holdfast.runner.recorder import PASSING
from holdfast.runner.task_options import WORKER
from holdfast.runner.task_run import TaskRun
from holdfast.spool import archive, task_dir
from holdfast.spool.task_dir import Spool

log = logging.getLogger(__name__)

LEASE_S = 60.0
LOOK_S = 1.0  # between checks of the queue when no event comes
TIDY_S = 3600.0  # between checks for spools that were kept long enough
MAX_FAILURES = 3  # of one run in itself before it is given up
REST_S = 2.0  # before such a run is tried again
LEFT_S = 60.0  # after its task ended so long ago nobody is still compressing a spool


class Worker:
    """Runs the tasks of one home on this machine, as many at once as the settings allow."""

    def __init__(self, context: Context):
        self._context = context
        self._store = context.store
        self._process_table = ProcessTableCache()
        self._runs: dict[str, tuple[TaskRun, asyncio.Task[None]]] = {}
        self._failures: dict[str, int] = {}
        self._resting: dict[str, float] = {}  # tasks whose run failed, until then
        self._wake = asyncio.Event()
        self._pending = PendingTasks(context, self._process_table, self._wake.set)
        self._listeners: list[asyncio.Task[None]] = []
        self._others: list[asyncio.Task[None]] = []

    async def serve(self, *, forever: bool) -> None:
        """Work; unless `forever`, until nothing is running or queued here that is this worker's.

        When it is cancelled, its agents keep running; the next worker adopts them.
        """
        self._others = others = [asyncio.create_task(work) for work in (self._renew(), self._tidy())]
        try:
            while True:
                self._wake.clear()
                try:
                    await self._reap()
                    await self._pending.reap()
                    waiting = await self._start_due()
                except (OSError, RuntimeError, MemoryError, errors.HoldfastError) as problem:
                    if not self._passes(problem):
                        raise
                    log.warning("%s; what runs goes on", problem)
                    waiting = 1
                if not forever and not self._runs and not waiting:
                    return
                for other in (*others, *self._listeners):
                    if other.done():
                        other.result()
                # Not wait_for: up to Python 3.11 it loses a cancellation that comes as the event is set.
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._wake.wait()
        finally:
            await self.leave()

    async def leave(self) -> None:
        """Stop driving its runs; the agents keep running."""
        running = [*self._others, *self._listeners, *self._pending.running()]
        running += [task for _, task in self._runs.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def adopt(self) -> list[dict[str, Any]]:
        """Take over what runs here without an owner, and wait until it is known which agents live.

        Returns the tasks that have ended by that, and sessions whose last task is missing.
        """
        missing: list[dict[str, Any]] = []
        try:
            await self._start_listening()
            await self._adopt(await self._store.turns())
            missing = await finish.note_missing_tasks(self._store, self._context.node)
            await sessions.sweep_worktrees(self._store, self._context.home.worktrees)
        except (OSError, RuntimeError, MemoryError, errors.HoldfastError) as problem:
            if not self._passes(problem):
                raise
            log.warning("%s; trying again soon", problem)
        for run, _ in list(self._runs.values()):
            await run.found.wait()
        adopted = [await self._store.task(name) for name in self._runs]
        return [
            {"task": task.id, "session": task.session, "status": task.status, "reason": task.reason}
            for task in adopted
            if task.status in ENDED
        ] + missing

    # --- the queue

    async def _start_due(self) -> int:
        """Take over what has no owner, and start what may start; how many tasks of ours have no run now."""
        await self._start_listening()
        entries = await self._store.turns()
        active = {entry.task for entry in entries if entry.status in ACTIVE}
        self._resting = {name: until for name, until in self._resting.items() if name in active}
        await self._adopt(entries)
        ours = {entry.task for entry in entries if entry.status in PENDING and self._is_ours(entry)}
        if ours:
            await self._pending.judge(entries, ours - {*self._runs})
            if ours & {*self._pending.cleared} and not self._context.shortages.is_resting:
                await self._claim(ours)
        return len(ours) + len(self._resting)

    async def _claim(self, ours: set[str]) -> None:
        """Claim the tasks that may start and whose turn it is."""
        async with queue_lock(self._context.home.path) as free:
            entries = await self._store.turns() if free else []
            pending = {entry.task for entry in entries if entry.status in PENDING}
            due = {*self._pending.startable(entries, pending - {*self._pending.cleared})} & ours - {
                *self._runs
            }
            starting = [entry for entry in entries if entry.task in due]
            if self._context.shortages.is_trying:
                starting = starting[:1]  # one shows first whether there is room again
            # Together, so that the claims are one transaction; they keep their order.
            await asyncio.gather(*[self._start(entry) for entry in starting])

    def _is_ours(self, entry: QueueEntry) -> bool:
        """Whether this worker may start it: one that another living worker queued belongs to that one."""
        if not self._context.node.owns(entry.host):
            return False
        owner = _owner(entry.options.get(WORKER))
        if owner is None or owner == self._context.owner or owner.host in self._context.node.copy_of:
            return True
        return self._is_alive(owner, entry) is False

    async def _start(self, entry: QueueEntry) -> None:
        try:
            task = await self._store.claim(entry.task, entry.generation, self._context.owner, LEASE_S)
        except errors.Refused:  # taken by another, archived, or its conversation is driven elsewhere
            return
        await self._run(task.id, self._pending.cleared.pop(entry.task, None))

    async def _adopt(self, entries: list[QueueEntry]) -> None:
        for entry in entries:
            if entry.task in self._runs and entry.status == "unreachable":
                await self._mark_running(entry)
            if entry.status not in ACTIVE or entry.owner is None or entry.task in self._runs:
                continue
            if time.monotonic() < self._resting.get(entry.task, 0.0):
                continue
            self._resting.pop(entry.task, None)
            alive = self._is_alive(entry.owner, entry)
            if alive is None and entry.owner.host in self._context.node.copy_of:
                await self._end_copied(entry)
            elif alive is None:
                await self._mark_unreachable(entry)
            elif not alive or entry.owner == self._context.owner:
                with suppress(errors.StaleGeneration):
                    await self._store.claim(entry.task, entry.generation, self._context.owner, LEASE_S)
                    await self._run(entry.task)

    def _is_alive(self, owner: Owner, entry: QueueEntry) -> bool | None:
        """Whether an owner still runs; None if that cannot be seen from here: unknown is not dead."""
        has_spool = os.path.isdir(self._context.home.task(entry.task))
        if not self._context.node.runs_here(owner.host, has_spool=has_spool):
            return None
        if identity.is_alive(owner.pid, owner.started, owner.boot):
            return True
        # A home that was copied unnoticed (a cloned machine) has this id too. What it runs has a living
        # lease and no spool here.
        if not self._context.node.private and not has_spool and not _is_expired(entry):
            return None
        return False

    async def _end_copied(self, entry: QueueEntry) -> None:
        """A task that ran when this home was copied: the original has its agent, this copy only its log."""
        if not self._context.node.private:
            return
        text = f"this home is a copy of node {self._context.node.copy_of[-1]}, where the task ran"
        with suppress(errors.Refused):
            task = await self._store.claim(entry.task, entry.generation, self._context.owner, LEASE_S)
            event = NewEvent("notice", {"text": text, "code": "copied_home"})
            await self._store.commit(refusal(task, "interrupted", text, [event], {}))

    async def _mark_unreachable(self, entry: QueueEntry) -> None:
        """A node that does not answer makes its tasks unreachable: unknown is not dead."""
        if entry.status == "running" and _is_expired(entry):
            with suppress(errors.Refused):
                reason = f"{entry.owner.host if entry.owner else 'its host'} has not been heard of"
                await self._store.set_status(
                    entry.task, "unreachable", generation=entry.generation, reason=reason
                )

    async def _mark_running(self, entry: QueueEntry) -> None:
        """Other workers marked this task unreachable, but it runs here."""
        with suppress(errors.Refused):
            await self._store.renew(entry.task, entry.generation, LEASE_S)
            await self._store.set_status(entry.task, "running", generation=entry.generation)

    # --- runs

    async def _run(self, task_id: str, cleared: StartClearance | None = None) -> None:
        task = await self._store.task(task_id)
        session = await self._store.session(task.session)
        judged = cleared is not None and session.events == cleared.seen + 1  # the claim is one record
        run = TaskRun(self._context, self._process_table, task, session, judged=judged)
        running = asyncio.create_task(run.run(), name=task_id)
        running.add_done_callback(lambda _: self._wake.set())
        self._runs[task_id] = (run, running)

    async def _reap(self) -> None:
        for name, (run, running) in list(self._runs.items()):
            if not running.done():
                continue
            problem = running.exception()
            if problem is not None and self._context.shortages.note_problem(problem):
                log.warning("the run of task %s: %s; it is tried again", name, problem)
                await self._give_back(run, problem)
            elif isinstance(problem, PASSING):
                log.warning("the run of task %s: %s", name, problem.message)
            elif problem is not None:
                log.error("the run of task %s failed", name, exc_info=problem)
                await self._count_failure(name, problem)
            if problem is not None:
                self._resting[name] = time.monotonic() + REST_S
            del self._runs[name]

    def _passes(self, problem: BaseException) -> bool:
        """Whether a failure says nothing about a task: the store or this machine lacks something now."""
        return isinstance(problem, PASSING) or self._context.shortages.note_problem(problem)

    async def _give_back(self, run: TaskRun, problem: BaseException) -> None:
        """Queue a task again that was never launched; if that fails too, it is adopted later."""
        try:
            if run.is_unlaunched():
                await run.give_back(header(str(problem), REASON))
        except (OSError, RuntimeError, errors.HoldfastError) as another:
            if not isinstance(
                another, (*PASSING, errors.Refused)
            ) and not self._context.shortages.note_problem(another):
                raise

    async def _count_failure(self, name: str, problem: BaseException) -> None:
        """A run failed in itself: it is tried again, and ended with an error when that does not help."""
        self._failures[name] = self._failures.get(name, 0) + 1
        if self._failures[name] < MAX_FAILURES:
            return  # `_adopt` finds it without a run
        task = await self._store.task(name)
        text = f"Holdfast failed in this run: {type(problem).__name__}: {problem}"
        event = NewEvent("error", {"text": text, "code": "internal"})
        with suppress(errors.Refused):
            await self._store.commit(refusal(task, "interrupted", header(text, REASON), [event], {}))

    # --- in the background

    async def _start_listening(self) -> None:
        """Follow the log, before any run reads the requests for its task: later ones it gets from here."""
        if not self._listeners:
            self._listeners.append(asyncio.create_task(self._listen(await self._store.cursor())))

    async def _listen(self, cursor: str) -> None:
        """Pass on requests for tasks, also those of other processes."""
        while True:
            try:
                async for news in self._store.follow(cursor):
                    cursor = news.cursor
                    for change in news.changes:
                        self._on_event(change.session, change.event)
            except (OSError, RuntimeError, errors.HoldfastError) as problem:
                if not self._passes(problem):
                    raise
                log.warning("%s; trying again soon", problem)
                await asyncio.sleep(LOOK_S)

    def _on_event(self, session: str, event: Event) -> None:
        self._pending.on_event(session, event.task)
        if event.task in self._runs and is_request(event):
            self._runs[event.task][0].wake()
        elif event.kind in ("task", "session") and event.body.get("op") != "deliver":  # that moves no queue
            self._wake.set()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 3)
            for run, _ in list(self._runs.values()):
                try:
                    await self._store.renew(run.task.id, run.task.generation, LEASE_S)
                except errors.StaleGeneration:
                    pass  # its run notices at its next commit
                except (OSError, RuntimeError, errors.HoldfastError) as problem:
                    if not self._passes(problem):
                        raise
                    log.warning("the lease of %s: %s", run.task.id, problem)

    async def _tidy(self) -> None:
        """Compress the spools that killed workers left; remove those that were kept for long enough."""
        while True:
            try:
                await self._tidy_once()
            except (OSError, RuntimeError, errors.HoldfastError) as problem:
                if not self._passes(problem):
                    raise
                log.warning("tidying: %s", problem)
            await asyncio.sleep(TIDY_S)

    async def _tidy_once(self) -> None:
        await sessions.sweep_worktrees(self._store, self._context.home.worktrees)
        tasks = self._context.home.tasks
        for path in await asyncio.to_thread(archive.uncompressed, tasks):
            if await self._has_ended(os.path.basename(path)):
                await asyncio.to_thread(archive.compress, Spool(path))
        keep_s = self._context.settings.run.keep_days * 86400
        for path in await asyncio.to_thread(archive.expired, tasks, time.time(), keep_s):
            await asyncio.to_thread(archive.remove, path)

    async def _has_ended(self, folder: str) -> bool:
        """Whether a spool's task ended a while ago; False for a folder of no task."""
        try:
            task = await self._store.task(task_dir.task_of(folder))
        except errors.NotFound:
            return False
        return (
            task.status in ENDED
            and timestamps.parse(task.ended_at or timestamps.now()) < time.time() - LEFT_S
        )


def _is_expired(entry: QueueEntry) -> bool:
    return entry.lease_until is not None and entry.lease_until < timestamps.now()


def _owner(value: Any) -> Owner | None:
    try:
        return msgspec.convert(value, Owner)
    except msgspec.ValidationError:
        return None
