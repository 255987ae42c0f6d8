"""From a claimed task to a process with its stdio on disk."""

from __future__ import annotations

import os
import uuid
from typing import Any, NamedTuple

import msgspec

from holdfast import clock, errors
from holdfast.agents.agent import Agent, Launch
from holdfast.agents.find import find
from holdfast.drive.driver import Job
from holdfast.git import worktree
from holdfast.model.session import Session
from holdfast.model.task import Task
from holdfast.model.token import current
from holdfast.spool import retiring
from holdfast.spool.folder import Spool
from holdfast.work import beginning
from holdfast.work.context import Context
from holdfast.work.environment import environment

_CHOSEN = uuid.UUID("0c2a4b1e-6b0f-4e53-9d35-5f0b5a1f7d60")  # the ids that we choose are below this one


class Plan(NamedTuple):
    """All of a launch but the launching."""

    agent: Agent
    job: Job
    launch: Launch
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
            "at": clock.now(),
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
    fork = beginning.fork_of(task)
    job = Job(
        agent=agent.name,
        session=session.id,
        task=task.id,
        prompt=await beginning.with_brief(context, task, session, cwd),
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
    anyway = task.options.get(beginning.BEGIN) == "anyway"
    if token is not None and (anyway or await _is_proven(context, token.task)):
        if token.protocol not in (None, agent.protocols[0]):  # Cursor keeps these apart, and finds none there
            raise errors.BadInput(
                f"this conversation is one of {agent.title}'s {token.protocol} mode; "
                f"Holdfast drives it by {agent.protocols[0]}",
                hint="start a new session, or go on with it in its own program",
            )
        return token.native_id, True
    # A launch that was prepared and did not happen is made again under the same id.
    tries = retiring.retired(Spool(context.home.task(task.id)))
    return (str(uuid.uuid5(_CHOSEN, f"{task.id}/{tries}")) if agent.chooses_id else None), False


async def _is_proven(context: Context, task: str | None) -> bool:
    """Whether there is a conversation under a token: only once the agent has taken a prompt in it.

    One whose agent was killed before it showed that is left alone: it may hold the prompt already, and going
    on with it would ask twice.
    """
    return task is None or (await context.store.task(task)).delivery == "accepted"
