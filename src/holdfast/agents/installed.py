"""What is to be known of every agent on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdfast.agents.base import Agent
from holdfast.agents.discovery import find, traps, version
from holdfast.agents.registry import AgentRegistry
from holdfast.errors import BadInput


def look(registry: AgentRegistry, tables: Mapping[str, Any], env: Mapping[str, str]) -> list[dict[str, Any]]:
    """Look for every agent at once: where it is, its version, what is known not to work with it."""
    with ThreadPoolExecutor(max_workers=8) as pool:  # each look waits for a program to start
        return list(pool.map(lambda agent: _look(agent, tables.get(agent.name, {}), env), registry.agents))


def _look(agent: Agent, table: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    problem = None
    try:
        place = find(agent, table, env) if agent.launch is not None else None
    except BadInput as wrong:
        place, problem = None, wrong.message
    told = version(place) if place is not None and agent.version_args else None
    return {
        "name": agent.name,
        "title": agent.title,
        "aliases": list(agent.aliases),
        "protocols": list(agent.protocols),
        "runnable": agent.launch is not None,
        "path": place.path if place is not None else None,
        "command": list(place.command) if place is not None else None,
        "version": told,
        "install": agent.install or None,
        "problems": [*([problem] if problem else []), *traps(agent, told)],
    }
