"""The verdict on a session, asked from where the work is done."""

from __future__ import annotations

from holdfast.model.event import NewEvent
from holdfast.model.session import Session
from holdfast.resume import record, verdict
from holdfast.resume.facts import Facts, Place, gather
from holdfast.resume.verdict import Verdict
from holdfast.work.context import Context

NOT_RESUMED = "not_resumed"


async def facts(
    context: Context, session: Session, *, but: str | None = None, wanted: str | None = None
) -> Facts:
    """What is known of it now; `but`: the task that asks, `wanted`: the folder that is asked for."""
    agent = context.registry.get(session.agent)
    env = {**context.env, **context.settings.of(agent.name).env}
    place = Place(context.home, env, context.owner.host)
    return await gather(context.store, agent, place, session.id, but=but, wanted=wanted)


def warning(found: Verdict) -> NewEvent:
    """What the log of a fresh run says of the session that it does not go on with."""
    why = "a new conversation was asked for" if found.action == "resume" else verdict.told(found)
    body = {
        "text": f"resume=<none>: {why}",
        "code": NOT_RESUMED,
        "session": found.session,
        "token": found.token,
        "reasons": reasons(found),
    }
    return NewEvent("notice", body)


def overruling(found: Verdict, by: str, traps: list[str]) -> NewEvent:
    """That somebody goes on with a session against the verdict; `traps`: of the agent's version here."""
    body = {
        "text": f"{by} goes on with this session all the same, though the verdict is {found.action}: "
        + verdict.told(found),
        "code": record.OVERRULED,
        "by": by,
        "action": found.action,
        "reasons": reasons(found),
        "traps": traps,
    }
    return NewEvent("notice", body)


def trust(by: str, reason: str, task: str) -> NewEvent:
    """That somebody has looked, and found a session sound whose last task did not end well."""
    text = f"{by} trusts this session again after task {task}: {reason}"
    return NewEvent("notice", {"text": text, "code": record.TRUSTED, "by": by, "reason": reason, "of": task})


def attempt(native_id: str) -> NewEvent:
    """That a resume is tried; it is one only when the agent names that id."""
    return NewEvent("notice", {"text": f"resume={native_id}", "code": record.ATTEMPT, "native_id": native_id})


def reasons(found: Verdict) -> list[dict[str, str]]:
    """The reasons as records and refusals name them."""
    return [{"code": reason.code, "text": reason.text} for reason in found.reasons]
