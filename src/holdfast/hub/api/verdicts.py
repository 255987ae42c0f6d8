"""Verdicts over HTTP: is a session safe to resume, and why."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from litestar import get
from litestar.params import FromPath, FromQuery, QueryParameter

from holdfast.agents.discovery import find, version
from holdfast.errors import HoldfastError
from holdfast.hub.api import responses as problem
from holdfast.hub.api.responses import TheHub, fails
from holdfast.hub.state import HubState
from holdfast.resume.rules import Action
from holdfast.resume.verdict import Reason, Verdict, judge
from holdfast.runner import sessions
from holdfast.runner.context import Context


class SessionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict (`action`, `reasons`, `session`, `token`), or the problem with it (the other fields)."""

    action: Action | msgspec.UnsetType = msgspec.UNSET
    reasons: list[Reason] | msgspec.UnsetType = msgspec.UNSET
    session: str | msgspec.UnsetType = msgspec.UNSET
    token: str | msgspec.UnsetType | None = msgspec.UNSET
    type: str | msgspec.UnsetType = msgspec.UNSET
    title: str | msgspec.UnsetType = msgspec.UNSET
    status: int | msgspec.UnsetType = msgspec.UNSET
    detail: str | msgspec.UnsetType = msgspec.UNSET
    code: str | msgspec.UnsetType = msgspec.UNSET
    hint: str | msgspec.UnsetType = msgspec.UNSET


class VerdictList(msgspec.Struct, frozen=True):
    """By the name that was asked for."""

    verdicts: dict[str, SessionVerdict]


@get(
    "/api/sessions/{session:str}/verdict",
    operation_id="judgeSession",
    summary="Is this session safe to resume, and why",
    responses=fails(404, 409),
)
async def judge_session(hub: TheHub, session: FromPath[str], fork: FromQuery[bool] = False) -> Verdict:
    """The verdict; `fork`: a copy is preferred to a new conversation where both will do."""
    return await _judge(hub, await hub.resolve(session), fork=fork, whole=True)


@get(
    "/api/verdicts",
    operation_id="judgeSessions",
    summary="The verdicts on up to 50 sessions; they may be a few seconds old",
    responses=fails(),
)
async def judge_sessions(
    hub: TheHub,
    names: Annotated[list[str] | None, QueryParameter(name="session", max_items=50)] = None,
) -> VerdictList:
    """One for each name; what is wrong with one does not stop the others."""
    found: dict[str, SessionVerdict] = {}
    for name in dict.fromkeys(names or []):
        try:
            found[name] = SessionVerdict(**msgspec.structs.asdict(await _kept(hub, name)))
        except HoldfastError as wrong:
            found[name] = msgspec.convert(problem.document(wrong), SessionVerdict)
    return VerdictList(found)


async def _kept(hub: HubState, name: str) -> Verdict:
    session = await hub.store.session(await hub.resolve(name))
    kept = hub.verdicts.get(session.id, session.events)
    return kept or hub.verdicts.keep(session.id, await _judge(hub, session.id), session.events)


async def _judge(hub: HubState, session: str, *, fork: bool = False, whole: bool = False) -> Verdict:
    """`whole`: with the agent's version, which is dear to ask for."""
    header = await hub.store.session(session)
    facts = await sessions.facts(hub.context, header)
    if whole:
        told = await asyncio.to_thread(_version, hub.context, header.agent)
        facts = msgspec.structs.replace(facts, version=told)
    return judge(facts, fork=fork)


def _version(context: Context, name: str) -> str | None:
    agent = context.registry.get(name)
    found = find(agent, context.settings.tables.get(agent.name, {}), context.env)
    return None if found is None else version(found)


ROUTES = [judge_session, judge_sessions]
