"""The worker: takes over what runs without an owner, and starts what is queued."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import msgspec

from holdfast import durable_io, errors, shortage, timestamps
from holdfast.model.changes import SetStatus
from holdfast.model.commit import Commit
from holdfast.model.event import Event, NewEvent
from holdfast.model.task import ACTIVE, ENDED, PENDING, Owner, QueueEntry, Task
from holdfast.process import identity
from holdfast.resume.environment import LiveProcess
from holdfast.runner import finish, launch, sessions
from holdfast.runner.context import Context, header
from holdfast.runner.control import is_request
from holdfast.runner.finish import REASON, refusal
from holdfast.runner.processes import ProcessTableCache
from holdfast.runner.recorder import PASSING
from holdfast.runner.task_run import TaskRun
from holdfast.runner.waiting import policy_of
from holdfast.spool import archive, task_dir
from holdfast.spool.task_dir import Spool


class QueueCandidate(NamedTuple):
    """A task that has not started, as far as its turn goes."""

    task: str
    session: str
    agent: str


def startable(
    queued: Sequence[QueueCandidate],
    running: Iterable[QueueCandidate],
    at_once: int,
    limit_of: Callable[[str], int | None],
    held: Collection[str] = (),
) -> list[str]:
    """The tasks whose turn it is; one that must wait for its session or agent holds up none behind it.

    One that is `held` takes no slot; what is behind it in its session waits, too.
    """
    active = list(running)
    agents = Counter(task.agent for task in active)
    blocked = {task.session for task in active}
    found: list[str] = []
    for waiting in queued:
        if len(active) + len(found) >= at_once:
            break
        if waiting.session in blocked:
            continue
        if waiting.task in held:
            blocked.add(waiting.session)
            continue
        limit = limit_of(waiting.agent)
        if limit is not None and agents[waiting.agent] >= limit:
            continue
        found.append(waiting.task)
        agents[waiting.agent] += 1
        blocked.add(waiting.session)
    return found


# --- The worker: takes over what runs without an owner, and starts what is queued.

log = logging.getLogger(__name__)

# What a judgement rested on has changed since: look again.
CHANGED = (errors.StaleGeneration, errors.PlanChanged, errors.KeyTaken)

LEASE_S = 60.0
LOOK_S = 1.0  # between looks at the queue when nothing was heard of it
TIDY_S = 3600.0  # between looks for spools that were kept long enough
FALLS = 3  # a run that fails in itself is taken up again so often
REST_S = 2.0  # before it is
QUEUE_S, STEP_S = 2.0, 0.01  # to wait for another worker that looks at the queue
LEFT_S = 60.0  # a task that ended so long ago is not being put away by anybody

CLEARED_S = 5.0  # for so long a judgement counts that did not lead to a claim
AGAIN_S, SELDOM_S = 2.0, 60.0  # before a task that waits is judged again though nothing changed

WORKER = "worker"  # in a task's options: who queued it and means to run it


class StartClearance(NamedTuple):
    """That a task may start, as long as its session is as it was judged."""

    generation: int
    seen: int  # records of its session's log
    until: float


class PendingWait(NamedTuple):
    """What a waiting task waits for, and when it is judged again if nothing changes."""

    session: str
    processes: frozenset[LiveProcess]
    pause: float
    at: float  # monotonic


class Worker:
    """Runs the tasks of one home on this machine, as many at once as the settings allow."""

    def __init__(self, context: Context):
        self._context = context
        self._store = context.store
        self._watchman = ProcessTableCache()
        self._runs: dict[str, tuple[TaskRun, asyncio.Task[None]]] = {}
        self._falls: dict[str, int] = {}
        self._resting: dict[str, float] = {}  # tasks whose run failed, until then
        self._cleared: dict[str, StartClearance] = {}
        self._waits: dict[str, PendingWait] = {}
        self._ready: set[str] = set()  # waiting tasks that lack only a slot
        self._judging: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._ears: list[asyncio.Task[None]] = []
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
                    await self._reap_judging()
                    waiting = await self._turn()
                except (OSError, RuntimeError, MemoryError, errors.HoldfastError) as problem:
                    if not isinstance(problem, PASSING) and not self._is_shortage(problem):
                        raise
                    log.warning("%s; what runs goes on", problem)
                    waiting = 1
                if not forever and not self._runs and not waiting:
                    return
                for other in (*others, *self._ears):
                    if other.done():
                        other.result()
                # Not wait_for: up to Python 3.11 it loses a cancellation that comes as the event is set.
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._wake.wait()
        finally:
            await self.leave()

    async def leave(self) -> None:
        """Let go of all that it drives; the agents go on."""
        running = [*self._others, *self._ears, *self._judging.values()]
        running += [task for _, task in self._runs.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def adopt(self) -> list[dict[str, Any]]:
        """Take over what runs here without an owner, and wait until it is known which agents live.

        Tells of the tasks that have ended by that, and of sessions whose last one is missing.
        """
        missing: list[dict[str, Any]] = []
        try:
            await self._hark()
            await self._adopt(await self._store.turns())
            missing = await finish.note_missing_tasks(self._store, self._context.node)
            await sessions.sweep_worktrees(self._store, self._context.home.worktrees)
        except (OSError, RuntimeError, MemoryError, errors.HoldfastError) as problem:
            if not isinstance(problem, PASSING) and not self._is_shortage(problem):
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

    # --- whose turn it is

    async def _turn(self) -> int:
        """Adopt, and start what may start; how many tasks of ours have no run now."""
        await self._hark()
        turns = await self._store.turns()
        active = {turn.task for turn in turns if turn.status in ACTIVE}
        self._resting = {name: until for name, until in self._resting.items() if name in active}
        await self._adopt(turns)
        ours = {turn.task for turn in turns if turn.status in PENDING and self._is_ours(turn)}
        if ours:
            await self._judge(turns, ours)
            if ours & {*self._cleared} and not self._context.shortages.is_resting:
                await self._claim(ours)
        return len(ours) + len(self._resting)

    async def _claim(self, ours: set[str]) -> None:
        """Claim what was judged and has its turn."""
        async with self._queue() as free:
            turns = await self._store.turns() if free else []
            pending = {turn.task for turn in turns if turn.status in PENDING}
            due = {*self._startable(turns, pending - {*self._cleared})} & ours - {*self._runs}
            starting = [turn for turn in turns if turn.task in due]
            if self._context.shortages.is_trying:
                starting = starting[:1]  # one shows first whether there is room again
            # Together, so that the claims are one transaction; they are handed in in order.
            await asyncio.gather(*[self._start(turn) for turn in starting])

    def _startable(self, turns: list[QueueEntry], held: Collection[str]) -> list[str]:
        here = [turn for turn in turns if self._context.node.owns(turn.host)]
        active = [_waiting(turn) for turn in here if turn.status in ACTIVE]
        pending = [_waiting(turn) for turn in here if turn.status in PENDING]
        settings = self._context.settings
        at_once, limit_of = settings.run.at_once, lambda agent: settings.of(agent).at_once
        return startable(pending, active, at_once, limit_of, held)

    def _due_without_slot(self, turns: list[QueueEntry], held: Collection[str]) -> set[str]:
        """The waiting tasks to judge again whether or not a slot is free: their wait has a bound."""
        names = {turn.task for turn in turns if turn.status == "waiting"} - self._ready
        sessions = {turn.session for turn in turns if turn.task in names}
        here = [turn for turn in turns if turn.session in sessions]
        active = [_waiting(turn) for turn in here if turn.status in ACTIVE]
        pending = [_waiting(turn) for turn in here if turn.status in PENDING]
        return {*startable(pending, active, len(here) + 1, lambda _: None, held)} & names

    # --- judging before the claim: what has to wait takes no slot

    async def _judge(self, turns: list[QueueEntry], ours: set[str]) -> None:
        """Begin to judge the tasks that have their turn, and those whose wait may be over."""
        now = time.monotonic()
        self._cleared = {
            turn.task: cleared
            for turn in turns
            if (cleared := self._cleared.get(turn.task)) is not None
            and cleared.until > now
            and cleared.generation == turn.generation
            and turn.status in PENDING
        }
        self._waits = {turn.task: self._waits[turn.task] for turn in turns if turn.task in self._waits}
        held = await self._unchanged({turn.task for turn in turns if turn.status == "waiting"})
        for turn in turns:
            if turn.status == "waiting" and turn.not_before is not None:
                held |= {turn.task} if turn.not_before > timestamps.now() else set()
        self._ready &= {turn.task for turn in turns if turn.status == "waiting"}
        with_slot = {*self._startable(turns, held)}
        due = (with_slot | self._due_without_slot(turns, held)) & ours
        for name in due - {*self._cleared} - {*self._judging} - {*self._runs}:
            judging = asyncio.create_task(self._judge_one(name, name in with_slot), name=f"judge {name}")
            judging.add_done_callback(self._judged)
            self._judging[name] = judging

    def _judged(self, judging: asyncio.Task[None]) -> None:
        if not judging.cancelled() and judging.exception() is None:  # else at the next look
            self._wake.set()

    async def _unchanged(self, waiting: set[str]) -> set[str]:
        """The waiting tasks that need no new judgement: what they wait for is as it was."""
        known = {name: self._waits[name] for name in waiting if name in self._waits}
        if not known:
            return set()
        now = time.monotonic()
        table: set[tuple[int, str]] = set()
        if any(wait.processes for wait in known.values()):
            sight = await self._watchman.look(now - LOOK_S)
            table = {(process.pid, process.command) for process in sight.table.values()}
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
            self._cleared[name] = StartClearance(task.generation, judged.seen, now + CLEARED_S)
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

    async def _reap_judging(self) -> None:
        for name, judging in list(self._judging.items()):
            if not judging.done():
                continue
            del self._judging[name]
            problem = judging.exception()
            if problem is None or isinstance(problem, CHANGED):  # looked at again at the next turn
                continue
            if self._is_shortage(problem):
                log.warning("task %s cannot be judged yet: %s", name, problem)
                continue
            if isinstance(problem, PASSING):
                log.warning("task %s cannot be judged yet: %s", name, problem.message)
                continue
            log.error("task %s could not be judged", name, exc_info=problem)
            self._falls[name] = self._falls.get(name, 0) + 1
            if self._falls[name] >= FALLS:
                text = f"Holdfast could not judge this task: {type(problem).__name__}: {problem}"
                await self._refuse(await self._store.task(name), errors.HoldfastError(text))

    def _is_ours(self, turn: QueueEntry) -> bool:
        """Whether this worker may start it: one that another living worker queued is that one's."""
        if not self._context.node.owns(turn.host):
            return False
        owner = _owner(turn.options.get(WORKER))
        if owner is None or owner == self._context.owner or owner.host in self._context.node.copy_of:
            return True
        return self._is_alive(owner, turn) is False

    async def _start(self, turn: QueueEntry) -> None:
        try:
            task = await self._store.claim(turn.task, turn.generation, self._context.owner, LEASE_S)
        except errors.Refused:  # taken by another, archived, or its conversation is driven elsewhere
            return
        await self._run(task.id, self._cleared.pop(turn.task, None))

    async def _adopt(self, turns: list[QueueEntry]) -> None:
        for turn in turns:
            if turn.task in self._runs and turn.status == "unreachable":
                await self._reached(turn)
            if turn.status not in ACTIVE or turn.owner is None or turn.task in self._runs:
                continue
            if time.monotonic() < self._resting.get(turn.task, 0.0):
                continue
            self._resting.pop(turn.task, None)
            alive = self._is_alive(turn.owner, turn)
            if alive is None and turn.owner.host in self._context.node.copy_of:
                await self._disown(turn)
            elif alive is None:
                await self._doubt(turn)
            elif not alive or turn.owner == self._context.owner:
                with suppress(errors.StaleGeneration):
                    await self._store.claim(turn.task, turn.generation, self._context.owner, LEASE_S)
                    await self._run(turn.task)

    def _is_alive(self, owner: Owner, turn: QueueEntry) -> bool | None:
        """Whether an owner still runs; None if that cannot be seen from here: unknown is not dead."""
        has_spool = os.path.isdir(self._context.home.task(turn.task))
        if not self._context.node.runs_here(owner.host, has_spool=has_spool):
            return None
        if identity.is_alive(owner.pid, owner.started, owner.boot):
            return True
        # A home that was copied unnoticed (a cloned machine) has this id too. What it runs has a living
        # lease and no spool here.
        if not self._context.node.private and not has_spool and not _is_expired(turn):
            return None
        return False

    async def _disown(self, turn: QueueEntry) -> None:
        """A task that ran when this home was copied: the original has its agent, this copy only its log."""
        if not self._context.node.private:
            return
        text = f"this home is a copy of node {self._context.node.copy_of[-1]}, where the task ran"
        with suppress(errors.Refused):
            task = await self._store.claim(turn.task, turn.generation, self._context.owner, LEASE_S)
            event = NewEvent("notice", {"text": text, "code": "copied_home"})
            await self._store.commit(refusal(task, "interrupted", text, [event], {}))

    async def _doubt(self, turn: QueueEntry) -> None:
        """A node that does not answer makes its tasks unreachable: unknown is not dead."""
        if turn.status == "running" and _is_expired(turn):
            with suppress(errors.Refused):
                reason = f"{turn.owner.host if turn.owner else 'its host'} has not been heard of"
                await self._store.set_status(
                    turn.task, "unreachable", generation=turn.generation, reason=reason
                )

    async def _reached(self, turn: QueueEntry) -> None:
        """Others had not heard of us for too long; we are here."""
        with suppress(errors.Refused):
            await self._store.renew(turn.task, turn.generation, LEASE_S)
            await self._store.set_status(turn.task, "running", generation=turn.generation)

    @asynccontextmanager
    async def _queue(self) -> AsyncIterator[bool]:
        """The limits hold for all workers of this machine: one at a time looks and claims.

        False if another one has been at it for too long: it may be stopped, and what we run must go on.
        """
        path = os.path.join(self._context.home.path, "queue.lock")
        with durable_io.reported(path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            for _ in range(round(QUEUE_S / STEP_S)):
                if free := _locked(fd):
                    break
                await asyncio.sleep(STEP_S)
            yield free
        finally:
            os.close(fd)

    # --- runs

    async def _run(self, task_id: str, cleared: StartClearance | None = None) -> None:
        task = await self._store.task(task_id)
        session = await self._store.session(task.session)
        judged = cleared is not None and session.events == cleared.seen + 1  # the claim is one record
        run = TaskRun(self._context, self._watchman, task, session, judged=judged)
        running = asyncio.create_task(run.run(), name=task_id)
        running.add_done_callback(lambda _: self._wake.set())
        self._runs[task_id] = (run, running)

    async def _reap(self) -> None:
        for name, (run, running) in list(self._runs.items()):
            if not running.done():
                continue
            problem = running.exception()
            if problem is not None and self._is_shortage(problem):
                log.warning("the run of task %s: %s; it is tried again", name, problem)
                await self._give_back(run, problem)
            elif isinstance(problem, PASSING):
                log.warning("the run of task %s: %s", name, problem.message)
            elif problem is not None:
                log.error("the run of task %s failed", name, exc_info=problem)
                await self._fell(name, problem)
            if problem is not None:
                self._resting[name] = time.monotonic() + REST_S
            del self._runs[name]

    def _is_shortage(self, problem: BaseException) -> bool:
        """Whether this machine lacked something; that is noted, and counts against no task."""
        what = shortage.resource_of(problem)
        if what is not None:
            self._context.shortages.note(what, str(problem))
        return what is not None

    async def _give_back(self, run: TaskRun, problem: BaseException) -> None:
        """What was never launched goes back to the queue; where that fails, too, it is adopted later."""
        try:
            if run.is_unlaunched():
                await run.give_back(header(str(problem), REASON))
        except (OSError, RuntimeError, errors.HoldfastError) as another:
            if not isinstance(another, (*PASSING, errors.Refused)) and not self._is_shortage(another):
                raise

    async def _fell(self, name: str, problem: BaseException) -> None:
        """A run failed in itself: it is taken up again, and given up loudly when that does not help."""
        self._falls[name] = self._falls.get(name, 0) + 1
        if self._falls[name] < FALLS:
            return  # `_adopt` finds it without a run
        task = await self._store.task(name)
        text = f"Holdfast failed in this run: {type(problem).__name__}: {problem}"
        event = NewEvent("error", {"text": text, "code": "internal"})
        with suppress(errors.Refused):
            await self._store.commit(refusal(task, "interrupted", header(text, REASON), [event], {}))

    # --- in the background

    async def _hark(self) -> None:
        """Begin to listen, before any run looks at what was asked of its task: later it hears it from us."""
        if not self._ears:
            self._ears.append(asyncio.create_task(self._listen(await self._store.cursor())))

    async def _listen(self, cursor: str) -> None:
        """Pass on what is asked of tasks, also by other processes."""
        while True:
            try:
                async for news in self._store.follow(cursor):
                    cursor = news.cursor
                    for change in news.changes:
                        self._heard(change.session, change.event)
            except (OSError, RuntimeError, errors.HoldfastError) as problem:
                if not isinstance(problem, PASSING) and not self._is_shortage(problem):
                    raise
                log.warning("%s; listening again soon", problem)
                await asyncio.sleep(LOOK_S)

    def _heard(self, session: str, event: Event) -> None:
        for name, wait in self._waits.items():
            if wait.session == session and event.task != name:
                self._waits[name] = wait._replace(at=0.0)
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
                    if not isinstance(problem, PASSING) and not self._is_shortage(problem):
                        raise
                    log.warning("the lease of %s: %s", run.task.id, problem)

    async def _tidy(self) -> None:
        """Put away the spools that killed workers have left; remove those that were kept for long enough."""
        while True:
            try:
                await self._tidy_once()
            except (OSError, RuntimeError, errors.HoldfastError) as problem:
                if not isinstance(problem, PASSING) and not self._is_shortage(problem):
                    raise
                log.warning("tidying: %s", problem)
            await asyncio.sleep(TIDY_S)

    async def _tidy_once(self) -> None:
        await sessions.sweep_worktrees(self._store, self._context.home.worktrees)
        tasks = self._context.home.tasks
        for path in await asyncio.to_thread(archive.uncompressed, tasks):
            if await self._is_over(os.path.basename(path)):
                await asyncio.to_thread(archive.compress, Spool(path))
        keep_s = self._context.settings.run.keep_days * 86400
        for path in await asyncio.to_thread(archive.expired, tasks, time.time(), keep_s):
            await asyncio.to_thread(archive.remove, path)

    async def _is_over(self, folder: str) -> bool:
        """Whether a spool's task has ended a while ago; what is no task's is left alone."""
        try:
            task = await self._store.task(task_dir.task_of(folder))
        except errors.NotFound:
            return False
        return (
            task.status in ENDED
            and timestamps.parse(task.ended_at or timestamps.now()) < time.time() - LEFT_S
        )


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _waiting(turn: QueueEntry) -> QueueCandidate:
    return QueueCandidate(turn.task, turn.session, turn.agent)


def _is_expired(turn: QueueEntry) -> bool:
    return turn.lease_until is not None and turn.lease_until < timestamps.now()


def _owner(value: Any) -> Owner | None:
    try:
        return msgspec.convert(value, Owner)
    except msgspec.ValidationError:
        return None
