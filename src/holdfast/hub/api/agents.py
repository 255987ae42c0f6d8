"""Agents over HTTP: what is installed here, and what is known not to work with it."""

from __future__ import annotations

import asyncio

import msgspec
from litestar import get

from holdfast.agents.installed import check_agents
from holdfast.hub.api.responses import TheHub, fails


class AgentStatus(msgspec.Struct, frozen=True):
    """One agent of the registry."""

    name: str
    title: str
    aliases: list[str]
    protocols: list[str]
    runnable: bool
    path: str | None
    command: list[str] | None
    version: str | None
    install: str | None
    problems: list[str]


class AgentStatusList(msgspec.Struct, frozen=True):
    """All of them."""

    agents: list[AgentStatus]


@get(
    "/api/agents",
    operation_id="listAgents",
    summary="What is installed here, and what is known not to work with it",
    responses=fails(),
)
async def list_agents(hub: TheHub) -> AgentStatusList:
    """Every agent of the registry; the look may be half a minute old."""
    context = hub.context
    found = hub.agents.get("")
    if found is None:
        seen = await asyncio.to_thread(check_agents, context.registry, context.settings.tables, context.env)
        found = hub.agents.keep("", seen)
    return AgentStatusList(msgspec.convert(found, list[AgentStatus]))


ROUTES = [list_agents]
