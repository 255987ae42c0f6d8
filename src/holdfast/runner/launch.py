"""How a task is launched: its conversation (resumed, forked or new), its brief and its environment."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from holdfast import errors, timestamps
from holdfast.agents.base import Agent, AgentLaunch
from holdfast.agents.discovery import find
from holdfast.agents.driver import AgentJob
from holdfast.git import worktree
from holdfast.model.changes import SetStatus
from holdfast.model.commit import Commit, Entry
from holdfast.model.event import NewEvent
from holdfast.model.session import Session
from holdfast.model.task import Task
from holdfast.model.token import current
from holdfast.resume import environment as resume_environment
from holdfast.resume import verdict
from holdfast.resume.environment import LiveProcess
from holdfast.resume.facts import ResumeFacts
from holdfast.resume.verdict import Verdict
from holdfast.runner import processes, replacement, sessions, waiting
from holdfast.runner.agent_environment import environment
from holdfast.runner.briefs import with_brief
from holdfast.runner.context import Context
from holdfast.runner.task_options import BRIEF, FORK, NO_MOVE, START_MODE
from holdfast.spool import task_dir
from holdfast.spool.task_dir import Spool

WAITING, IGNORED = "waiting", "leftovers_ignored"  # codes of notices
BY_POLICY = "policy"  # who ends leftover processes when the time for them is over


class ForkPoint(NamedTuple):
    """The conversation that is copied, and up to where."""

    of: str
    at: str | None


def fork_of(task: Task) -> ForkPoint | None:
    """What a task is to begin as a copy of."""
    told = task.options.get(FORK)
    if task.options.get(START_MODE) != FORK or not isinstance(told, dict):
        return None
    return ForkPoint(str(told["of"]), told.get("at"))


async def may_start(context: Context, task: Task, session: Session) -> bool:
    """Whether a task is safe to launch in its session now."""
    facts = await _facts(context, task, session)
    return facts is None or _is_safe(facts, verdict.judge(facts))


async def judge_pending(context: Context, task: Task, session: Session) -> PendingDecision:
    """Judge a task before it is claimed: clear it, let it wait, move it to a fresh session, or end it.

    A caller who insists on the session is refused where a fresh one would be needed.
    """
    facts = await _facts(context, task, session)
    if facts is None:
        return PendingDecision(session.events)
    found = verdict.judge(facts)
    if not _is_safe(facts, found) and found.action == "wait":
        step, facts = await _wait_or_act(context, task, facts, found)
        if step is not None:
            await _let_wait(context, task, step)
            return PendingDecision(step=step, processes=frozenset((*facts.owners, *facts.tools)))
        found = verdict.judge(facts)
    if _is_safe(facts, found):
        return PendingDecision(facts.seen)
    if found.action == "wait":  # something else has begun meanwhile
        return PendingDecision()
    if task.options.get(NO_MOVE):
        raise unsafe(found)
    await _move(context, task, session, found)
    return PendingDecision()


class PendingDecision(NamedTuple):
    """What became of a task that was judged: it may start, it waits, or neither and it is done with here."""

    seen: int | None = None  # records of the log that it may start after
    step: waiting.WaitStep | None = None
    processes: frozenset[LiveProcess] = frozenset()  # that it waits for


async def _facts(context: Context, task: Task, session: Session) -> ResumeFacts | None:
    """What a judgement rests on; None where there is nothing to judge."""
    if task.options.get(START_MODE) in ("anyway", FORK) or not await _has_past(context, task, session):
        return None
    return await sessions.facts(context, session, but=task.id)


def _is_safe(facts: ResumeFacts, found: Verdict) -> bool:
    return not facts.begun or found.action == "resume"


async def _wait_or_act(
    context: Context, task: Task, facts: ResumeFacts, found: Verdict
) -> tuple[waiting.WaitStep | None, ResumeFacts]:
    """The wait that is due, or None and the facts after the policy has removed the reason for it."""
    owners = await leftovers_of(context, task.session, facts)
    step = waiting.step(found, task, waiting.policy_of(task, context.settings), time.time(), owners)
    if step.do == "ignore":
        text = f"it starts beside leftover processes, by policy: {step.waiting_for.text}"
        await _notice(context, task, text, IGNORED)
        return None, msgspec.structs.replace(facts, tools=(), seen=facts.seen + 1)
    if step.do != "end":
        return step, facts
    for one in owners:
        with suppress(errors.IllegalChange):  # they have just ended by themselves
            await processes.end_leftovers(context.store, await context.store.task(one), BY_POLICY)
    facts = await sessions.facts(context, await context.store.session(task.session), but=task.id)
    again = verdict.judge(facts)
    if again.action != "wait":
        return None, facts
    asks = waiting.policy_of(task, context.settings)._replace(leftovers="wait")  # they cannot be ended
    return waiting.step(again, task, asks, time.time()), facts


async def leftovers_of(context: Context, session: str, facts: ResumeFacts) -> list[str]:
    """The dead tasks of the session that left processes behind."""
    found = []
    for name in await asyncio.to_thread(resume_environment.tasks_of, facts.tools):
        with suppress(errors.NotFound):  # of another home
            if (await context.store.task(name)).session == session:
                found.append(name)
    return found


async def _let_wait(context: Context, task: Task, step: waiting.WaitStep) -> None:
    """Record it, once for each thing that is waited for; a time limit that is over cancels the task."""
    if step.do == "cancel":
        limit = waiting.policy_of(task, context.settings).time_limit_s
        change = SetStatus(status="cancelled", reason=f"by its time limit of {limit:g} s, waiting")
        await context.store.commit(Commit(task.session, [change], task=task.id))
        return
    entries: list[Entry] = []
    if task.waiting_for is None or task.waiting_for.text != step.waiting_for.text:
        text = f"it waits: {step.waiting_for.text}"
        entries.append(NewEvent("notice", {"text": text, "code": WAITING, "cause": step.waiting_for.cause}))
    await context.store.commit(Commit(task.session, [*entries, step.change()], task=task.id))


async def _notice(context: Context, task: Task, text: str, code: str) -> None:
    event = NewEvent("notice", {"text": text, "code": code})
    await context.store.commit(Commit(task.session, [event], task=task.id))


def unsafe(found: Verdict) -> errors.ResumeUnsafe:
    """The refusal that names the reasons."""
    return errors.ResumeUnsafe(
        f"session {found.session} is not safe to resume: {verdict.reasons_text(found)}",
        hint=f"`holdfast resume {found.session} --fresh` starts fresh with a brief, --fork continues in a "
        "copy, --anyway ignores the verdict",
        reasons=sessions.reasons(found),
    )


async def _has_past(context: Context, task: Task, session: Session) -> bool:
    """Whether there is anything to judge; the first task of a session pays for no look around."""
    first = await context.store.first_task(session.id)
    return bool(await context.store.tokens(session.id)) or (first is not None and first.id != task.id)


async def _move(context: Context, task: Task, session: Session, found: Verdict) -> None:
    """Let the prompt go on in a fresh session, with the key and all that waits behind it."""
    options = {name: value for name, value in task.options.items() if name != START_MODE}
    options[BRIEF] = verdict.wants_brief(found) and task.options.get(BRIEF, True)
    await context.store.dispatch(
        replacement.fresh(
            session,
            found,
            replacement.session_folder(session, None),
            prompt=task.prompt,
            options=options,
            by="holdfast",
            retry_of=task.id,
            moved=(task.id, task.generation),
        )
    )


_CHOSEN = uuid.UUID("0c2a4b1e-6b0f-4e53-9d35-5f0b5a1f7d60")  # the ids that we choose are below this one


class LaunchPlan(NamedTuple):
    """All of a launch but the launching."""

    agent: Agent
    job: AgentJob
    launch: AgentLaunch
    env: dict[str, str]
    chosen: bool  # the job's native id is one that we chose for a new conversation

    def note(self, task: Task) -> dict[str, Any]:
        """The launch note: enough to go on after a restart, and no secret (of the environment, the names)."""
        return {
            "job": msgspec.to_builtins(self.job),
            "argv": list(self.launch.argv),
            "env": sorted(self.env),
            "listens": self.launch.listens,
            "generation": task.generation,
            "at": timestamps.now(),
        }


async def plan(context: Context, task: Task, session: Session) -> LaunchPlan:
    """What to launch; an error with a hint where that cannot be done."""
    agent = context.registry.get(session.agent)
    settings = context.settings.of(agent.name)
    if agent.driver is None or agent.launch is None:
        raise errors.AgentUnusable(f"{agent.title} cannot be run by Holdfast yet")
    found = find(agent, context.settings.tables.get(agent.name, {}), context.env)
    if found is None:
        raise errors.AgentMissing(
            f"{agent.title} is not installed here",
            hint=agent.install or f"or say where it is: [agents.{agent.name}] path in config.toml",
        )
    cwd = await folder(session)
    native_id, resume = await _conversation(context, task, session, agent)
    fork = fork_of(task)
    for id in (native_id, None if fork is None else fork.of):
        if id is not None:
            agent.check_native_id(id)
    job = AgentJob(
        agent=agent.name,
        session=session.id,
        task=task.id,
        prompt=await with_brief(context, task, session, cwd),
        cwd=cwd,
        program=found.command,
        permissions=task.options.get("permissions")
        or settings.permissions
        or context.settings.run.permissions,
        native_id=native_id,
        resume=resume,
        fork_of=None if fork is None else fork.of,
        fork_at=None if fork is None else fork.at,
        args=settings.args,
    )
    launch = agent.launch(job)
    env = environment(
        context.env,
        (*agent.keeps, *settings.keeps),
        agent.sets,
        launch.env,
        settings.env,
        {"PWD": cwd},
        task=task.id,
        session=session.id,
    )
    return LaunchPlan(agent, job, launch, env, native_id is not None and not resume)


async def folder(session: Session) -> str:
    """Where the session's agent works; a worktree that is gone is put back from its branch."""
    if session.worktree is not None:
        if not os.path.isdir(session.worktree.path):
            await worktree.back(session.worktree)
        return await worktree.folder_in(session.worktree, session.cwd or session.worktree.path)
    cwd = session.cwd or os.getcwd()
    if not os.path.isdir(cwd):
        raise errors.BadInput(f"the folder {cwd} is not there", hint="make it, or give another with --cwd")
    return cwd


async def _conversation(
    context: Context, task: Task, session: Session, agent: Agent
) -> tuple[str | None, bool]:
    """The native id of the conversation, and whether to resume it."""
    token = current(await context.store.tokens(session.id), agent.name)
    anyway = task.options.get(START_MODE) == "anyway"
    if token is not None and (anyway or await _is_proven(context, token.task)):
        if token.protocol not in (None, agent.protocols[0]):  # Cursor keeps these apart, and finds none there
            raise errors.BadInput(
                f"this conversation is one of {agent.title}'s {token.protocol} mode; "
                f"Holdfast drives it by {agent.protocols[0]}",
                hint="start a new session, or resume it in its own program",
            )
        return token.native_id, True
    # A launch that was prepared and did not happen is made again under the same id.
    tries = task_dir.retired(Spool(context.home.task(task.id)))
    return (str(uuid.uuid5(_CHOSEN, f"{task.id}/{tries}")) if agent.chooses_id else None), False


async def _is_proven(context: Context, task: str | None) -> bool:
    """Whether there is a conversation under a token: only once the agent has taken a prompt in it.

    One whose agent was killed before it showed that is left alone: it may hold the prompt already, and going
    on with it would ask twice.
    """
    return task is None or (await context.store.task(task)).delivery == "accepted"
