"""One task, from its claim to its end: launch or re-attach, follow, settle."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import subprocess
import time

import msgspec

from holdfast import durable_io, errors, shortage
from holdfast.agents.driver import AgentJob, Driver
from holdfast.git import worktree
from holdfast.model.changes import Deliver, SeeToken, SetStatus
from holdfast.model.commit import Entry
from holdfast.model.event import NewEvent
from holdfast.model.session import Session
from holdfast.model.task import Task
from holdfast.model.token import current
from holdfast.resume.log_evidence import NOT_LAUNCHED
from holdfast.runner import finish, launch, replay, sessions
from holdfast.runner.context import Context
from holdfast.runner.control import StopController, TaskRequests, requests
from holdfast.runner.earlier_launch import unknown_launch, was_given_back
from holdfast.runner.finish import FinalEntries, TaskFinisher, refusal
from holdfast.runner.lost_spool import commit_of, finish_without_spool, only_rest
from holdfast.runner.output_reader import OutputReader
from holdfast.runner.processes import ProcessTableCache, TaskProcesses
from holdfast.runner.recorder import PASSING, OutputRecorder
from holdfast.runner.stdio_watch import RelayWatch
from holdfast.runner.uncommitted import uncommitted_paths, warnings
from holdfast.spool import archive, task_dir
from holdfast.spool.outbox import Outbox, close_input
from holdfast.spool.reader_deaths import DeathRecord, ReaderMarks, decide
from holdfast.spool.task_dir import Spool
from holdfast.spool.watch import Handle

SET_ASIDE = "set_aside"
SUSPECT_S = 2.0  # before output is read that a hub died on: one that is soon killed then proves nothing

log = logging.getLogger(__name__)

LOOK_S = 0.25  # between checks of a process that writes nothing
CHILDREN_S = 2.0  # between checks of what an agent with a running tool has started
STDERR_LIMIT = 8 * 1024 * 1024


class TaskRun:
    """Drives one task that this process owns."""

    def __init__(
        self,
        context: Context,
        process_table: ProcessTableCache,
        task: Task,
        session: Session,
        *,
        judged: bool = False,
    ):
        """`judged`: the session is as it was when it was found that the task may start."""
        self.task = task
        self._judged = judged
        self.found = asyncio.Event()  # set once it is known whether the agent runs
        self._context = context
        self._process_table = process_table
        self._session = session
        self._spool = Spool(context.home.task(task.id))
        self._processes = TaskProcesses(self._spool, process_table, task.id, None)
        self._launched = task.delivery != "waiting"  # a process of it may have been started
        self._handle: Handle | None = None
        self._has_requests = True  # there may be some from before this process took it
        self._noted_children = 0.0
        self._checked_relay = 0.0
        self._marks: ReaderMarks | None = None  # only of a run that another process read before

    def wake(self) -> None:
        """There is a request for this task."""
        self._has_requests = True
        if self._handle is not None:
            self._handle.wake()

    async def run(self) -> None:
        """Drive it to its end; stop at once when another process owns it."""
        try:
            try:
                if not await self._start_or_attach():
                    return
                await self._follow()
            except FileNotFoundError as problem:
                if not self._launched or os.path.exists(self._spool.stdout):
                    raise
                await self._finish_lost(f"{problem.filename} is gone")
                return
            await self._finish()
        except errors.StaleGeneration:
            log.info("task %s has another owner now", self.task.id)
        finally:
            if self._marks is not None:
                self._marks.close()  # whatever ended this run, it did not end the process
            self.found.set()
            if self._context.overhear is not None:
                self._context.overhear(self.task.session, self.task.id, None)
            if self._handle is not None:
                self._handle.close()

    # --- start

    async def _start_or_attach(self) -> bool:
        """Attach to the process that runs already, or start one; False if the task has ended."""
        if not os.path.isdir(self._spool.path):
            if self.task.delivery == "accepted" or (self._launched and await self._processes.survivors()):
                await self._finish_lost(f"{self._spool.path} is gone")
                return False
        elif self.task.delivery != "accepted" and self._prevent():
            task_dir.discard(self._spool)  # it was prepared and never launched
        elif (
            not self._launched
            and not self._spool.is_agent_recorded()
            and await was_given_back(self._context.store, self.task, self._spool)
        ):
            task_dir.discard(self._spool)  # a shim was there, and could not start the agent
        elif not self._launched and await was_given_back(self._context.store, self.task, self._spool):
            task_dir.retire(self._spool)
        elif (note := self._spool.launch()) and "job" in note:
            return await self._attach(msgspec.convert(note["job"], AgentJob), bool(note["listens"]))
        else:
            await self._finish_lost(f"{self._spool.note} is gone")
            return False
        try:
            if by := (await self._requests()).cancels:
                await self._context.store.commit(refusal(self.task, "cancelled", f"by {by[0]}", [], {}))
                return False
            self.found.set()  # no agent of it runs
            if not self._judged and not await launch.may_start(self._context, self.task, self._session):
                await self.give_back("it must be judged again")
                return False
            await self._launch()
        except (errors.StaleGeneration, *PASSING):
            raise
        except errors.HoldfastError as problem:
            if shortage.resource_of(problem) is not None:
                raise  # it says nothing about this task
            await self._refuse(problem)
            return False
        return True

    async def _attach(self, job: AgentJob, listens: bool) -> bool:
        """Read the output of an agent that was started before; False if the task has ended."""
        if not await self._take_over():
            return False
        if archive.is_packed(self._spool) and self._processes.agent() is None:
            try:
                await asyncio.to_thread(archive.unpack, self._spool)
            except errors.StoreUnreadable as problem:
                await self._finish_lost(problem.message)
                return False
        first = None
        if not self._launched:
            first = unknown_launch(job, self._context.registry.get(job.agent).protocols[0])
        await self._prepare(job, listens, first)
        self._launched = True
        return True

    async def give_back(self, why: str, code: str = NOT_LAUNCHED) -> None:
        """Queue a task again for which no agent was launched."""
        text = f"{why}; no agent was started, and it is queued again"
        body = {"text": text, "code": code, "generation": self.task.generation}
        entries: list[Entry] = [NewEvent("notice", body), SetStatus(status="queued", reason=why)]
        await self._context.store.commit(commit_of(self.task, entries))

    def is_unlaunched(self) -> bool:
        """Whether no agent of it was started, and from now on none can be."""
        return not self._launched and (not os.path.isdir(self._spool.path) or self._prevent())

    async def _take_over(self) -> bool:
        """Whether to read output that other hubs began to read; False if the run was set aside."""
        self._marks = ReaderMarks(self._spool.deaths_file)
        record = self._marks.take_over()
        decision = decide(record)
        if decision == "set_aside":
            await self._set_aside(record)
            return False
        if decision == "wait":
            self.found.set()
            await asyncio.sleep(SUSPECT_S)
        return True

    async def _set_aside(self, record: DeathRecord) -> None:
        """End a run whose output kills the hub: a start must not fail for it again and again."""
        with durable_io.reported(self._spool.keep):
            os.close(os.open(self._spool.keep, os.O_WRONLY | os.O_CREAT, 0o600))
        why = (
            f"{record.deaths} hubs died one after the other while they read this agent's output at byte "
            f"{record.offset:,}, so the run was set aside; all output is kept in {self._spool.path}"
        )
        await finish_without_spool(
            self._context.store, self.task, self._processes, None, only_rest, why, SET_ASIDE
        )

    def _prevent(self) -> bool:
        with durable_io.reported(self._spool.path):
            return self._spool.prevent()

    async def _finish_lost(self, why: str) -> None:
        journal = self._recorder if self._handle is not None else None
        await finish_without_spool(
            self._context.store, self.task, self._processes, journal, self._with_stored, why
        )

    async def _launch(self) -> None:
        plan = await launch.plan(self._context, self.task, self._session)
        if plan.job.resume and plan.job.native_id is not None:
            await replay.catch_up(self._context, self.task, plan.agent, plan.job.native_id)
        before = await worktree.changes(plan.job.cwd)
        entries: list[Entry] = []
        if not self._launched:  # else they are in the log
            entries += await warnings(self._context.store, self.task, self._session, before)
            if plan.job.resume and plan.job.native_id is not None:
                entries.append(sessions.attempt(plan.job.native_id))
            if plan.launch.notice:
                entries.append(NewEvent("notice", {"text": plan.launch.notice, "code": "launch"}))
        if plan.chosen and plan.job.native_id is not None:
            entries.append(
                SeeToken(
                    agent=plan.agent.name,
                    native_id=plan.job.native_id,
                    seen_in="chosen",
                    protocol=plan.agent.protocols[0],
                )
            )
        durable_io.make_folder(self._context.home.tasks)
        note = {**plan.note(self.task), "before": msgspec.to_builtins(before)}
        await asyncio.to_thread(
            self._spool.make, note, plan.launch.stdin.encode()
        )  # it waits for the disk, and other runs must not
        await self._prepare(plan.job, plan.launch.listens, [*entries, Deliver(delivery="sent")])
        child = self._start(plan)
        self._launched = True  # at once: from here on it must not be queued again as not launched
        self._context.shortages.over()
        self._processes = TaskProcesses(self._spool, self._process_table, self.task.id, child)

    def _start(self, plan: launch.LaunchPlan) -> subprocess.Popen[bytes]:
        try:
            return self._spool.start(plan.launch.argv, plan.env, plan.job.cwd, plan.launch.listens)
        except (OSError, ValueError) as problem:
            if isinstance(problem, OSError) and problem.errno != errno.E2BIG:
                raise
            raise errors.BadInput(f"{plan.agent.title} cannot be started: {problem}") from problem

    async def _prepare(self, job: AgentJob, listens: bool, first: list[Entry] | None = None) -> None:
        """Make all that drives the process; `first` is committed before anything is sent."""
        self._agent = self._context.registry.get(job.agent)
        self._job = job
        self._driver: Driver = self._context.registry.make_driver(job)
        self._outbox = Outbox(self._spool.sent) if listens else None
        past = await self._context.store.task_events(self.task.id, ("tool_progress",))
        self._recorder = OutputRecorder(
            self._context.store,
            self.task,
            self._driver,
            self._outbox,
            past,
            self._agent.is_native_id,
            self._marks,
        )
        self._output = OutputReader(
            self.task, self._spool, self._recorder, self._driver, self._context.overhear
        )
        self._handle = self._context.watch.add(self._spool.path)
        if first:
            await self._recorder.commit(first)
        self._recorder.open()
        await self._output.check_size()

    async def _refuse(self, problem: errors.HoldfastError) -> None:
        """End a task that could not be launched, and say why."""
        event = NewEvent("error", {"text": problem.message, "code": problem.code, "hint": problem.hint})
        outcome = {"code": problem.code, "hint": problem.hint}
        await self._context.store.commit(refusal(self.task, "failed", problem.message, [event], outcome))
        if os.path.isdir(self._spool.path) and self._spool.prevent():
            task_dir.discard(self._spool)

    # --- run

    async def _follow(self) -> None:
        assert self._handle is not None
        self._relays = (
            RelayWatch(self._spool, self._processes, self.task.id) if self._recorder.listens else None
        )
        self._stopping = StopController(
            self.task, self._spool, self._processes, self._recorder, self._context.settings.run
        )
        while True:
            gone = await self._processes.is_gone()  # before the read: its last output is then on disk
            if not gone:
                self.found.set()
            more = await self._output.read_next()
            archive.bound_stderr(self._spool, STDERR_LIMIT)
            if self._has_requests and (not more or self._output.is_level()):
                self._has_requests = False
                await self._handle_requests()
            if gone and not more:
                return
            await self._stopping.tick()
            await self._note_children()
            await self._check_relay()
            if more:
                await asyncio.sleep(0)
            else:
                await self._handle.wait(LOOK_S)

    async def _handle_requests(self) -> None:
        """Handle the requests for the task: send answers, pass a request to stop on."""
        asked = await self._requests()
        for ask in list(self._driver.pending_permissions):
            if ask in asked.answers:
                await self._recorder.append(self._driver.answer(ask, asked.answers[ask]))
        await self._stopping.update(asked)

    async def _requests(self) -> TaskRequests:
        return requests(await self._context.store.task_events(self.task.id, ("permission", "notice")))

    async def _note_children(self) -> None:
        """While a tool runs, remember the processes that the agent has started."""
        if self._driver.open_calls and time.monotonic() - self._noted_children > CHILDREN_S:
            self._noted_children = time.monotonic()
            await self._processes.note()

    async def _check_relay(self, at_end: bool = False) -> None:
        """Record what happened to the relay; a check costs a few small reads."""
        due = at_end or time.monotonic() - self._checked_relay >= LOOK_S
        if self._relays is None or not due:
            return
        self._checked_relay = time.monotonic()
        if events := self._relays.news():
            await self._recorder.commit(events)

    # --- end

    async def _finish(self) -> None:
        await self._output.finish()
        await self._check_relay(at_end=True)
        cancelled_by = self._stopping.cancelled_by
        if cancelled_by is not None:
            await self._stopping.end_all()
        await self._recorder.check_ownership()
        close_input(self._spool)  # where the shim was killed its relay is still there
        before = self._spool.launch().get("before")
        survivors, left, told, branch = await asyncio.gather(
            self._processes.survivors(),
            uncommitted_paths(before, self._job.cwd),
            self._final_entries(),
            worktree.branch(self._job.cwd),
        )
        settling = TaskFinisher(self.task, self._agent, self._job, self._spool, self._recorder)
        started = self._spool.is_agent_recorded()
        await settling.settle(cancelled_by, survivors, left, told, branch)
        if not started and cancelled_by is None:
            self._context.shortages.note("processes", f"task {self.task.id}: {finish.NO_ROOM}")
        if (native_id := self._native_id()) is not None:
            await replay.keep(self._context, self._agent, native_id, level=told.level)

    async def _final_entries(self) -> FinalEntries:
        """The last entries: of its stream, and without a final answer there also of its own store."""
        rest = self._recorder.rest()
        return (
            FinalEntries(rest, level=True)
            if self._driver.final is not None
            else await self._with_stored(rest)
        )

    async def _with_stored(self, rest: list[Entry]) -> FinalEntries:
        """The same with what the agent's own store has beyond its stream."""
        agent = self._context.registry.get(self._session.agent)
        native_id = self._native_id() if self._handle is not None else None
        if native_id is None:
            token = current(await self._context.store.tokens(self.task.session), agent.name)
            native_id = None if token is None else token.native_id
        return await finish.unstreamed_events(self._context, self.task, agent, native_id, rest)

    def _native_id(self) -> str | None:
        named = self._driver.native_id
        return named if named is not None and self._agent.is_native_id(named) else self._job.native_id
