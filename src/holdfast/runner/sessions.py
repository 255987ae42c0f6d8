"""Deleting a session, and the worktree that was made for it."""

from __future__ import annotations

import logging

from holdfast.errors import IllegalChange, NotFound, Refused
from holdfast.git import unfinished, worktree
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.session import Session, Worktree
from holdfast.model.task import Task
from holdfast.resume import log_evidence, verdict
from holdfast.resume.facts import NativeLocation, ResumeFacts, gather
from holdfast.resume.verdict import Verdict
from holdfast.runner.context import Context
from holdfast.store.store import Store

log = logging.getLogger(__name__)


async def delete(store: Store, session: str, by: str, reason: str) -> tuple[Session, str | None]:
    """Into the trash with it; its worktree goes unless something could be lost, and then why it stays."""
    changed = await store.delete(session, by, reason)
    if changed.worktree is None or await _is_shared(store, changed.worktree):
        return changed, None
    try:
        await worktree.remove(changed.worktree)
    except Refused as problem:
        return changed, problem.message
    return changed, None


async def sweep_worktrees(store: Store, worktrees: str) -> None:
    """Remove the worktrees whose making a crash cut short: no session has them."""
    for found in list(unfinished.left_in(worktrees)):
        try:
            await store.session(found.session)
        except NotFound:
            why = await unfinished.remove(found)
            if why is None:
                log.warning("removed %s: a crash cut its making short", found.worktree.path)
            else:
                log.warning("a crash cut the making of %s short; it stays: %s", found.worktree.path, why)
        else:
            unfinished.forget(found.worktree)


async def _is_shared(store: Store, made: Worktree) -> bool:
    """Whether another session works there: one that goes on from the deleted one has its worktree, too."""
    found = (await store.sessions(text=made.branch, empty=True)).sessions
    return any(session.worktree is not None and session.worktree.path == made.path for session in found)


# --- The verdict on a session, asked from where the work is done.

NOT_RESUMED, KEY_TAKEN_BACK = "not_resumed", "key_taken_back"


async def facts(
    context: Context, session: Session, *, but: str | None = None, wanted: str | None = None
) -> ResumeFacts:
    """What is known of it now; `but`: the task that asks, `wanted`: the folder that is asked for."""
    agent = context.registry.get(session.agent)
    env = {**context.env, **context.settings.of(agent.name).env}
    place = NativeLocation(context.home, env, context.node)
    return await gather(context.store, agent, place, session.id, but=but, wanted=wanted)


def warning(found: Verdict) -> NewEvent:
    """The notice in the log of a fresh run: why the session before it is not resumed."""
    why = "a new conversation was asked for" if found.action == "resume" else verdict.reasons_text(found)
    body = {
        "text": f"resume=<none>: {why}",
        "code": NOT_RESUMED,
        "session": found.session,
        "token": found.token,
        "reasons": reasons(found),
    }
    return NewEvent("notice", body)


def overruling(found: Verdict, by: str, traps: list[str]) -> NewEvent:
    """The notice that somebody resumes a session against the verdict; `traps`: known bugs of the agent."""
    body = {
        "text": f"{by} resumes this session although the verdict is {found.action}: "
        + verdict.reasons_text(found),
        "code": log_evidence.OVERRULED,
        "by": by,
        "action": found.action,
        "reasons": reasons(found),
        "traps": traps,
    }
    return NewEvent("notice", body)


def key_taken_back(by: str, key: str, holder: str) -> NewEvent:
    """The record that an archived session takes its key back from the session that has it."""
    text = f"{by} brought this session back and took the key {key} back from session {holder}"
    return NewEvent("notice", {"text": text, "code": KEY_TAKEN_BACK, "by": by, "key": key, "session": holder})


def trusted_event(by: str, reason: str, task: str) -> NewEvent:
    """That somebody has looked, and found a session sound whose last task did not end well."""
    text = f"{by} trusts this session again after task {task}: {reason}"
    return NewEvent(
        "notice", {"text": text, "code": log_evidence.TRUSTED, "by": by, "reason": reason, "of": task}
    )


def attempt(native_id: str) -> NewEvent:
    """That a resume is tried; it is one only when the agent names that id."""
    return NewEvent(
        "notice", {"text": f"resume={native_id}", "code": log_evidence.ATTEMPT, "native_id": native_id}
    )


def reasons(found: Verdict) -> list[dict[str, str]]:
    """The reasons as records and refusals name them."""
    return [{"code": reason.code, "text": reason.text} for reason in found.reasons]


# --- Trust that is given by hand to a session whose last task did not end well.


async def trust(store: Store, session: str, by: str, reason: str) -> Task:
    """Record it; the task that no longer counts. What was interrupted cannot be trusted so."""
    last = next(iter(await store.started_tasks(session)), None)
    if last is None or last.status not in ("cancelled", "failed"):
        state = "no task of it came to an agent" if last is None else f"its last task is {last.status}"
        raise IllegalChange(
            f"session {session} cannot be trusted by hand: {state}, not cancelled or failed",
            hint="`holdfast resume ID --anyway` resumes it against its verdict",
        )
    await store.commit(Commit(session, [trusted_event(by, reason, last.id)]))
    return last
