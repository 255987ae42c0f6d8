"""The brief of a fresh run: what the log and the worktree say of the run before it."""

from __future__ import annotations

from holdfast.git import worktree
from holdfast.model.event import Event
from holdfast.model.session import Session
from holdfast.model.task import Task
from holdfast.resume import brief
from holdfast.resume.facts import leftovers
from holdfast.runner import sessions, task_options
from holdfast.runner.context import Context
from holdfast.store.store import Store

PAGE, TAIL = 500, 5000  # events of a log that are read at once for a brief, and in all
CHAIN = 5  # sessions back whose prompts a brief names


async def with_brief(context: Context, task: Task, session: Session, cwd: str) -> str:
    """The prompt, with a brief at its head where the session continues one that was cut short."""
    if not task.options.get(task_options.BRIEF) or session.link is None:
        return task.prompt
    old = await context.store.session(session.link.session)
    told = await _story(context.store, task, old, cwd)
    return task.prompt if told is None else brief.with_prompt(brief.brief(told), task.prompt)


async def _story(store: Store, task: Task, old: Session, cwd: str) -> brief.InterruptedRun | None:
    """What a session did last: a turn of another program that was replayed into its log, or its last task."""
    running, changes = await leftovers(store, old.id), await worktree.changes(cwd)
    tail = await _tail(store, old)
    why = await _not_resumed(store, task)
    if replayed := brief.replayed_turn(old.id, tail, why, running=running, folder=cwd, changes=changes):
        return replayed
    last = next(iter(await store.started_tasks(old.id)), None)
    if last is None:
        return None
    kinds = ("user", "assistant", "tool_progress", "tool_summary", "permission")
    earlier = await _asked_before(store, old.id)
    return brief.interrupted_task(
        last,
        earlier.named(),
        await store.task_events(last.id, kinds),
        left_out=earlier.count - len(earlier.named()),
        running=running,
        folder=cwd,
        changes=changes,
    )


async def _tail(store: Store, session: Session) -> list[Event]:
    """The end of a log, back to its last prompts; bounded, however long the log is."""
    events: list[Event] = []
    end = session.events
    while end > 0 and len(events) < TAIL and _prompts_in(events) <= brief.NAMED:
        start = max(end - PAGE, 0)
        events = await _between(store, session.id, start, end) + events
        end = start
    return events


async def _between(store: Store, session: str, start: int, end: int) -> list[Event]:
    """The events after `start` up to `end`; a page may be shorter than what was asked for."""
    events: list[Event] = []
    while start < end and (page := await store.events(session, start, end - start)):
        events += page
        start = page[-1].seq
    return events


def _prompts_in(events: list[Event]) -> int:
    return sum(1 for event in events if event.kind == "user")


async def _not_resumed(store: Store, task: Task) -> str | None:
    """Why the session before was not resumed, as the log of this one says."""
    for event in await store.task_events(task.id, ("notice",)):
        if event.body.get("code") == sessions.NOT_RESUMED:
            return "; ".join(str(reason["text"]) for reason in event.body.get("reasons", []))
    return None


async def _asked_before(store: Store, session: str) -> brief.EarlierPrompts:
    """The prompts before the last one, in this session and in those that it continues.

    The task itself may be named only in the first of them.
    """
    found = brief.EarlierPrompts()
    for number in range(1 + CHAIN):
        found = found.after(await _prompts(store, session, leave_out=1 if number == 0 else 0))
        link = (await store.session(session)).link
        if link is None:
            break
        session = link.session
    return found


async def _prompts(store: Store, session: str, *, leave_out: int) -> brief.EarlierPrompts:
    """The prompts of a session that reached its agent, without the last `leave_out` of them."""
    count = await store.started_count(session) - leave_out
    if count <= 0:
        return brief.EarlierPrompts()
    latest = await store.started_tasks(session, limit=brief.NAMED + leave_out)
    first = await store.first_started_task(session)
    assert first is not None  # counted above, and no task is ever deleted
    last = [task.prompt for task in reversed(latest[leave_out:])]
    return brief.EarlierPrompts(first.prompt, tuple(last), count)
