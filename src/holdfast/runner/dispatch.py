"""From what a person wants done to a queued task; all that can be refused is refused here."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from holdfast import errors, ids, timestamps
from holdfast.agents.base import Agent
from holdfast.agents.discovery import find, traps, version
from holdfast.git import unfinished, worktree
from holdfast.model.changes import Create
from holdfast.model.event import NewEvent
from holdfast.model.session import Session, Worktree
from holdfast.model.task import Task
from holdfast.resume import verdict
from holdfast.resume.facts import ArchiveState, ResumeFacts
from holdfast.resume.verdict import Verdict, judge
from holdfast.runner import launch, replacement, sessions, task_options
from holdfast.runner.context import Context, header
from holdfast.runner.requests import PromptRequest
from holdfast.runner.task_options import WORKER
from holdfast.store.types import Dispatch, SessionReplacement
from holdfast.store.writes import same

DEMO = "demo"
TITLE = 80  # characters of a prompt that become a session's title
TRIES = 10  # of a session that goes on while it is judged


async def dispatch(context: Context, wish: PromptRequest, *, by: str, retry_of: str | None = None) -> Task:
    """Queue it where it belongs: in the session of its key where that is safe, else in a fresh one."""
    if not wish.prompt.strip():
        raise errors.BadInput("the prompt is empty")
    if wish.time_limit_s is not None and wish.time_limit_s <= 0:
        raise errors.BadInput("a time limit is more than 0 seconds")
    if wish.task is not None and (there := await _before(context, wish.task)) is not None:
        return same(there, wish.prompt)
    for last in [False] * (TRIES - 1) + [True]:
        try:
            session = await _existing(context, wish)
            if session is None:
                return await _new(context, wish)
            return await _Dispatcher(context, wish, session, by, retry_of).go()
        except (errors.PlanChanged, errors.KeyTaken):  # somebody was quicker: look again
            if last:
                raise
    raise AssertionError("the last try returns or raises")


async def _before(context: Context, task: str) -> Task | None:
    """The task that the same wish came to, if it was heard before; judging it again could refuse it."""
    try:
        return await context.store.task(task)
    except errors.NotFound:
        return None


async def _existing(context: Context, wish: PromptRequest) -> Session | None:
    """The session that is meant, if there is one."""
    if wish.session is not None:
        session = await context.store.session(await context.store.resolve(wish.session))
        if session.state != "live" and not (session.state == "archived" and wish.how in ("fork", "anyway")):
            raise await put_away(context, session)
    elif wish.key is not None:
        live = (await context.store.sessions(state="live", key=wish.key, empty=True, limit=1)).sessions
        if not live:
            return None
        session = live[0]
    else:
        return None
    if wish.key is not None and session.key != wish.key:
        has = f"has the key {session.key}" if session.key is not None else "has no key"
        raise errors.BadInput(
            f"session {session.id} {has}, not {wish.key}", hint="name the thread by its session or by its key"
        )
    if wish.agent is not None and context.registry.get(wish.agent).name != session.agent:
        raise errors.BadInput(f"session {session.id} is one of {session.agent}, not of {wish.agent}")
    check_agent(context, session.agent)
    return session


async def put_away(context: Context, session: Session) -> errors.IllegalChange:
    """The refusal of a session that is not live, with the commands that continue it."""
    if session.state == "deleted":
        return errors.IllegalChange(
            f"session {session.id} is deleted", hint=f"`holdfast restore {session.id}` brings it back"
        )
    note = session.archive
    holder = None if session.key is None else await context.store.key_holder(session.key)
    away = ArchiveState(note.by if note else "", note.reason if note else "", session.key, holder)
    can_fork = context.registry.get(session.agent).forks is not None
    why = f": {note.reason}" if note and note.reason else ""
    return errors.IllegalChange(
        f"session {session.id} is archived{why}", hint=verdict.return_commands(session.id, away, can_fork)
    )


class _Dispatcher:
    """One wish for one session that is there."""

    def __init__(
        self, context: Context, wish: PromptRequest, session: Session, by: str, retry_of: str | None
    ):
        self._context = context
        self._wish = wish
        self._session = session
        self._by = by
        self._retry_of = retry_of

    async def go(self) -> Task:
        """Judge, and queue it accordingly or say why not."""
        wish = self._wish
        wanted = None
        if wish.cwd is not None and wish.session is None and not replacement.is_in(self._session, wish.cwd):
            wanted = replacement.folder(wish.cwd)
        facts = await sessions.facts(self._context, self._session, wanted=wanted)
        found = judge(facts, fork=wish.how == "fork" or wish.fork)
        if wish.how in ("resume", "fork", "anyway") and facts.token is None:
            raise errors.NoToken(
                f"session {self._session.id} has no token to resume with",
                hint=f"`holdfast resume {self._session.id} --fresh` starts a new conversation"
                if facts.archived is None
                else f"`holdfast unarchive {self._session.id}` brings it back",
            )
        if facts.waiting:
            behind = wish.queue or wish.session is not None
            if wish.how is not None:  # who wants it forked, fresh or anyway means the present state
                behind = wish.queue and wish.how == "resume"
            if not behind:
                first = facts.waiting[0]
                raise await self._running(
                    f"task {first} of session {self._session.id} is running", found, facts
                )
            return await self._queue(queue=True)
        match wish.how:
            case "anyway":
                return await self._anyway(facts, found)
            case "fresh":
                return await self._fresh(facts, found)
            case "fork":
                return await self._fork(facts, found)
            case "resume" if not facts.begun:
                raise launch.unsafe(found)
        if not facts.begun:
            return await self._queue(seen=facts.seen, **await self._still_untold())
        if facts.elsewhere is not None or found.action == "resume":
            return await self._queue(seen=facts.seen)
        match found.action:
            case "wait":
                if wish.queue or verdict.is_short_wait(found):
                    return await self._queue(seen=facts.seen)
                raise await self._running(verdict.reasons_text(found), found, facts)
            case _ if wish.session is not None and not wish.may_move:
                raise launch.unsafe(found)
            case "fork":
                return await self._fork(facts, found)
        return await self._fresh(facts, found)

    async def _queue(
        self, *, queue: bool = False, seen: int | None = None, events: tuple[Any, ...] = (), **options: Any
    ) -> Task:
        """In the session itself; how it begins is judged once more when its turn comes."""
        if not self._context.node.owns(self._session.host):
            events = (*events, self._waits_elsewhere())
        named = self._wish.session is not None and not self._wish.may_move
        insists = {task_options.NO_MOVE: True} if named else {}
        return await self._context.store.dispatch(
            Dispatch(
                self._session.id,
                self._wish.prompt,
                {**self._options(), **insists, **options},
                self._retry_of,
                seen=seen,
                queue=queue,
                events=events,
                task=self._wish.task,
            )
        )

    def _waits_elsewhere(self) -> NewEvent:
        """Why a prompt for a session of another node does not start here."""
        host = self._session.host
        if self._context.node.private:
            raise errors.IllegalChange(
                f"session {self._session.id} is on {host}, and can only be run there",
                hint="start a new session here with another key",
            )
        text = f"waiting for node {host}, where this session is; it starts when a hub runs there"
        return NewEvent("notice", {"text": text, "code": "other_host", "node": host})

    async def _still_untold(self) -> dict[str, Any]:
        """The brief of a run that never reached its agent is for the next one; the first task carries it."""
        first = await self._context.store.first_task(self._session.id)
        owed = first is not None and first.options.get(task_options.BRIEF)
        return {task_options.BRIEF: True} if owed and self._wish.brief else {}

    async def _anyway(self, facts: ResumeFacts, found: Verdict) -> Task:
        agent = self._context.registry.get(self._session.agent)
        known = await asyncio.to_thread(known_traps, self._context, agent)
        overruled = (sessions.overruling(found, self._by, known),) if found.action != "resume" else ()
        if facts.archived is not None:
            return await self._take_back(facts, facts.archived, overruled)
        return await self._queue(seen=facts.seen, events=overruled, begin="anyway")

    async def _take_back(
        self, facts: ResumeFacts, archived: ArchiveState, events: tuple[NewEvent, ...]
    ) -> Task:
        """Bring an archived session back, with its key; the session that has the key is archived."""
        replaces = None
        if archived.holder is not None:
            reason = f"{self._by} took the key {archived.key} back for session {self._session.id}"
            replaces = SessionReplacement(archived.holder, self._by, header(reason, replacement.REASON))
            events = (*events, sessions.key_taken_back(self._by, str(archived.key), archived.holder))
        return await self._context.store.dispatch(
            Dispatch(
                self._session.id,
                self._wish.prompt,
                {**self._options(), task_options.NO_MOVE: True, task_options.START_MODE: "anyway"},
                self._retry_of,
                replaces=replaces,
                seen=facts.seen,
                events=events,
                task=self._wish.task,
                unarchive_by=self._by,
            )
        )

    async def _fresh(self, facts: ResumeFacts, found: Verdict) -> Task:
        told = {task_options.BRIEF: self._wish.brief and verdict.wants_brief(found)}
        where = replacement.session_folder(self._session, self._wish.cwd)
        new, made = ids.new(ids.SESSION), None
        if self._wish.worktree and where.worktree is None:
            made = await worktree.make(where.cwd, new, self._context.home.worktrees, timestamps.now())
            where = where._replace(worktree=made)
        dispatched = replacement.fresh(
            self._session,
            found,
            where,
            prompt=self._wish.prompt,
            options={**self._options(), **told},
            by=self._by,
            retry_of=self._retry_of,
            seen=facts.seen,
            new=new,
        )
        return await _queued(self._context, dispatched._replace(task=self._wish.task), made)

    async def _fork(self, facts: ResumeFacts, found: Verdict) -> Task:
        if found.action == "wait":
            raise await self._running(verdict.reasons_text(found), found, facts)
        if not facts.can_fork or found.action == "fresh":
            agent = self._context.registry.get(self._session.agent)
            why = verdict.reasons_text(found) if found.action == "fresh" else "it has no whole turn to copy"
            raise errors.ResumeUnsafe(
                f"session {self._session.id} cannot be forked: "
                + (why if agent.forks is not None else f"{agent.title} has no way to do that"),
                hint="start a new conversation with --fresh",
                reasons=sessions.reasons(found),
            )
        copied = {
            task_options.START_MODE: task_options.FORK,
            task_options.FORK: {"of": facts.token, "at": facts.fork_at},
            task_options.BRIEF: self._wish.brief and verdict.wants_brief(found),  # of what is not in the copy
        }
        where = replacement.session_folder(self._session, None)
        dispatched = replacement.fork(
            self._session,
            found,
            where,
            prompt=self._wish.prompt,
            options={**self._options(), **copied},
            by=self._by,
            seen=facts.seen,
        )
        return await self._context.store.dispatch(dispatched._replace(task=self._wish.task))

    def _options(self) -> dict[str, Any]:
        here = self._context.node.owns(self._session.host)
        return options(self._context, self._wish, here=here)

    async def _running(self, text: str, found: Verdict, facts: ResumeFacts) -> errors.SessionRunning:
        evidence = {key: value for reason in found.reasons for key, value in reason.evidence.items()}
        named = {key: evidence[key] for key in ("tasks", "processes") if key in evidence}
        task = {"task": named["tasks"][0]} if "tasks" in named else {}
        behind = self._wish.how in (None, "resume")
        hint = "--queue puts it behind that" if behind else "wait for it, or cancel it"
        if task:
            hint += f"; `holdfast cancel {task['task']}` stops it"
        else:
            hint = await leftovers_hint(self._context, found.session, facts) + hint
            hint += f"; `holdfast resume {found.session} --fresh` does not wait"
        return errors.SessionRunning(text, hint=hint, session=found.session, **task, **named)


async def leftovers_hint(context: Context, session: str, facts: ResumeFacts) -> str:
    """The commands that end the leftover processes of a session, as the beginning of a hint."""
    owners = await launch.leftovers_of(context, session, facts)
    return "".join(f"`holdfast cancel {owner}` ends its leftover processes; " for owner in sorted(owners))


def options(context: Context, wish: PromptRequest, *, here: bool = True) -> dict[str, Any]:
    """What a wish says of how its task is run; `here`: this worker means to run it."""
    found: dict[str, Any] = {WORKER: msgspec.to_builtins(context.owner)} if here else {}
    if wish.permissions is not None:
        found["permissions"] = wish.permissions
    if wish.time_limit_s is not None:
        found["time_limit_s"] = wish.time_limit_s
    if wish.leftovers is not None:
        found[task_options.LEFTOVERS] = wish.leftovers
    if not wish.brief:
        found[task_options.BRIEF] = False
    if wish.source:
        found["source"] = wish.source
    return found


async def _new(context: Context, wish: PromptRequest) -> Task:
    create = Create(
        agent=check_agent(context, wish.agent or _default_agent(context)),
        key=wish.key,
        cwd=replacement.folder(wish.cwd or wish.here or _here()),
        host=context.owner.host,
        title=header(wish.prompt, TITLE),
    )
    new, made = ids.new(ids.SESSION), None
    if wish.worktree:
        made = await worktree.make(create.cwd or "", new, context.home.worktrees, timestamps.now())
        create = msgspec.structs.replace(create, worktree=made)
    begun = Dispatch(new, wish.prompt, options(context, wish), create=create, task=wish.task)
    return await _queued(context, begun, made)


def _default_agent(context: Context) -> str:
    """The configured agent, or the only one that is installed; the demo agent is never meant by default."""
    if context.settings.run.agent is not None:
        return context.settings.run.agent
    installed = [
        agent.name
        for agent in context.registry.agents
        if agent.launch is not None and agent.name != DEMO and _is_installed(context, agent)
    ]
    if len(installed) == 1:
        return installed[0]
    found = f"; installed: {', '.join(installed)}" if installed else "; `holdfast agents` lists them"
    raise errors.BadInput("which agent?", hint=f"name one with -a, or set [run] agent in config.toml{found}")


def _is_installed(context: Context, agent: Agent) -> bool:
    try:
        return find(agent, context.settings.tables.get(agent.name, {}), context.env) is not None
    except errors.BadInput:  # its own settings are wrong; a prompt that names it says so
        return False


async def _queued(context: Context, wanted: Dispatch, made: Worktree | None) -> Task:
    """Queue it; the worktree that was made for it goes again if it is not needed."""
    try:
        task = await context.store.dispatch(wanted)
    except (errors.BadInput, errors.Refused):
        if made is not None:
            await worktree.remove(made)
        raise
    if made is not None and task.session != wanted.session:  # the same wish was heard twice at once
        await worktree.remove(made)
    elif made is not None:
        unfinished.forget(made)
    return task


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise errors.BadInput("the folder that you are in is gone", hint="give another with --cwd") from None


def known_traps(context: Context, agent: Agent) -> list[str]:
    """What is known not to work with the version that is installed here."""
    found = find(agent, context.settings.tables.get(agent.name, {}), context.env)
    return [] if found is None else traps(agent, version(found))


def check_agent(context: Context, name: str) -> str:
    """The registry's name of an agent that can be run here."""
    agent = context.registry.get(name)
    if agent.launch is None:
        raise errors.AgentUnusable(f"{agent.title} cannot be run by Holdfast yet")
    if find(agent, context.settings.tables.get(agent.name, {}), context.env) is None:
        raise errors.AgentMissing(f"{agent.title} is not installed here", hint=agent.install)
    return agent.name
