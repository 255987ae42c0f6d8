"""How a task's conversation begins: gone on with, copied or new; judged again at the last moment."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from holdfast import errors
from holdfast.git import folder
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.session import Session
from holdfast.model.task import Task
from holdfast.resume import brief, story, survivors, verdict
from holdfast.resume.record import touched
from holdfast.resume.verdict import Verdict
from holdfast.store.contract import Store
from holdfast.work import judging, succession
from holdfast.work.context import Context
from holdfast.work.requests import requests
from holdfast.work.settling import refusal

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
        facts = await judging.facts(context, session, but=task.id)
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
        reasons=judging.reasons(found),
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
        changes=await folder.changes(cwd),
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
    said["reasons"] = judging.reasons(found)
    event = NewEvent("notice", said)
    await context.store.commit(Commit(task.session, [event], task=task.id, generation=task.generation))


async def _move(context: Context, task: Task, session: Session, found: Verdict) -> None:
    """Let the prompt go on in a fresh session, with the key and all that waits behind it."""
    options = {name: value for name, value in task.options.items() if name != BEGIN}
    options[BRIEF] = verdict.wants_brief(found) and task.options.get(BRIEF, True)
    await context.store.dispatch(
        succession.fresh(
            session,
            found,
            succession.place(session, None),
            prompt=task.prompt,
            options=options,
            by="holdfast",
            retry_of=task.id,
            moved=(task.id, task.generation),
        )
    )
