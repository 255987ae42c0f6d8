"""How a task's conversation begins: gone on with, copied or new; judged again at the last moment."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast import errors, timestamps
from holdfast.agents.base import Agent, AgentLaunch
from holdfast.agents.discovery import find
from holdfast.agents.driver import AgentJob
from holdfast.git import worktree
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.session import Session
from holdfast.model.task import Task
from holdfast.model.token import current
from holdfast.process.table import MARK
from holdfast.resume import brief, verdict
from holdfast.resume import brief as story
from holdfast.resume import environment as survivors
from holdfast.resume.log_evidence import touched
from holdfast.resume.verdict import Verdict
from holdfast.runner import replacement, sessions
from holdfast.runner.context import Context
from holdfast.runner.control import requests
from holdfast.runner.finish import refusal
from holdfast.spool import task_dir
from holdfast.spool.task_dir import Spool
from holdfast.store.types import Store

# In a task's options: how its conversation is to begin, and whether it may be moved to a fresh session.
BEGIN, INSISTS, BRIEF, FORK = "begin", "insists", "brief", "fork"

LOOK_S, MOST_S = 0.5, 5.0  # between looks at what a task has to wait for: at first, and in the end
WAITING = "waiting"
CHAIN = 5  # sessions back whose prompts a brief names


class Fork(NamedTuple):
    """The conversation that is copied, and up to where."""

    of: str
    at: str | None


def fork_of(task: Task) -> Fork | None:
    """What a task is to begin as a copy of."""
    told = task.options.get(FORK)
    if task.options.get(BEGIN) != FORK or not isinstance(told, dict):
        return None
    return Fork(str(told["of"]), told.get("at"))


async def may_begin(context: Context, task: Task, session: Session) -> bool:
    """Whether a claimed task may be launched where it is; else it has ended, or goes on in a fresh session.

    Waits for as long as something must be waited for. A caller who insists on the session is refused.
    """
    if task.options.get(BEGIN) in ("anyway", FORK) or not await _has_past(context, task, session):
        return True
    pause = 0.0
    while True:
        facts = await sessions.facts(context, session, but=task.id)
        found = verdict.judge(facts)
        if not facts.begun or found.action == "resume":
            return True
        if found.action != "wait":
            break
        if by := requests(await context.store.task_events(task.id, ("permission", "notice"))).cancels:
            await context.store.commit(refusal(task, "cancelled", f"by {by[0]}", [], {}))
            return False
        if not pause:
            await _note(context, task, found)
        pause = min(pause + LOOK_S, MOST_S)
        await asyncio.sleep(pause)
    if task.options.get(INSISTS):
        raise unsafe(found)
    await _move(context, task, session, found)
    return False


def unsafe(found: Verdict) -> errors.ResumeUnsafe:
    """The refusal that names the reasons."""
    return errors.ResumeUnsafe(
        f"session {found.session} is not safe to go on with: {verdict.told(found)}",
        reasons=sessions.reasons(found),
    )


async def with_brief(context: Context, task: Task, session: Session, cwd: str) -> str:
    """The prompt, with a brief at its head where the session goes on from one that was cut short."""
    if not task.options.get(BRIEF) or session.link is None:
        return task.prompt
    store = context.store
    tasks = await store.tasks(session=session.link.session)
    came = [one for one in tasks if touched(one)]
    if not came:
        return task.prompt
    last = came[-1]
    events = await store.task_events(
        last.id, ("user", "assistant", "tool_progress", "tool_summary", "permission")
    )
    dead = [one.id for one in tasks if one.status in survivors.DEAD]
    told = story.tell(
        last,
        [*await _asked_before(store, session.link.session), *[one.prompt for one in came[:-1]]],
        events,
        running=await asyncio.to_thread(survivors.of_tasks, dead),
        folder=cwd,
        changes=await worktree.changes(cwd),
    )
    return brief.headed(brief.brief(told), task.prompt)


async def _asked_before(store: Store, session: str) -> list[str]:
    """What was asked in the sessions that this one goes on from: the task itself may be named only there."""
    asked: list[str] = []
    for _ in range(CHAIN):
        link = (await store.session(session)).link
        if link is None:
            break
        session = link.session
        asked = [task.prompt for task in await store.tasks(session=session) if touched(task)] + asked
    return asked


async def _has_past(context: Context, task: Task, session: Session) -> bool:
    """Whether there is anything to judge; the first task of a session pays for no look around."""
    if await context.store.tokens(session.id):
        return True
    return any(other.id != task.id for other in await context.store.tasks(session=session.id))


async def _note(context: Context, task: Task, found: Verdict) -> None:
    said: dict[str, Any] = {"text": f"it waits: {verdict.told(found)}", "code": WAITING}
    said["reasons"] = sessions.reasons(found)
    event = NewEvent("notice", said)
    await context.store.commit(Commit(task.session, [event], task=task.id, generation=task.generation))


async def _move(context: Context, task: Task, session: Session, found: Verdict) -> None:
    """Let the prompt go on in a fresh session, with the key and all that waits behind it."""
    options = {name: value for name, value in task.options.items() if name != BEGIN}
    options[BRIEF] = verdict.wants_brief(found) and task.options.get(BRIEF, True)
    await context.store.dispatch(
        replacement.fresh(
            session,
            found,
            replacement.place(session, None),
            prompt=task.prompt,
            options=options,
            by="holdfast",
            retry_of=task.id,
            moved=(task.id, task.generation),
        )
    )


# --- The environment of an agent: explicit, scrubbed, and marked so that its tools can be found again.

# What any program needs to find its user, its language, its network and its temporary files.
COMMON = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "SSH_AUTH_SOCK",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
)


def environment(
    base: Mapping[str, str], keeps: Iterable[str], *given: Mapping[str, str], task: str, session: str
) -> dict[str, str]:
    """What is kept of `base`, what each of `given` sets over it, and the marks."""
    made = {name: value for name, value in base.items() if _kept(name, (*COMMON, *keeps))}
    for more in given:
        made.update(more)
    made["TERM"] = "dumb"
    made["HOLDFAST_SESSION"] = session
    made[MARK] = task
    return made


def _kept(name: str, patterns: Iterable[str]) -> bool:
    return any(name.startswith(p[:-1]) if p.endswith("*") else name == p for p in patterns)


# --- From a claimed task to a process with its stdio on disk.

_CHOSEN = uuid.UUID("0c2a4b1e-6b0f-4e53-9d35-5f0b5a1f7d60")  # the ids that we choose are below this one


class Plan(NamedTuple):
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


async def plan(context: Context, task: Task, session: Session) -> Plan:
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
    return Plan(agent, job, launch, env, native_id is not None and not resume)


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
    """The native id to go on with or to begin with, and whether to go on."""
    token = current(await context.store.tokens(session.id), agent.name)
    anyway = task.options.get(BEGIN) == "anyway"
    if token is not None and (anyway or await _is_proven(context, token.task)):
        if token.protocol not in (None, agent.protocols[0]):  # Cursor keeps these apart, and finds none there
            raise errors.BadInput(
                f"this conversation is one of {agent.title}'s {token.protocol} mode; "
                f"Holdfast drives it by {agent.protocols[0]}",
                hint="start a new session, or go on with it in its own program",
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
