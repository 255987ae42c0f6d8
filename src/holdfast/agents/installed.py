"""Which agents are installed on this machine, and what is known about each?"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdfast.agents.base import Agent
from holdfast.agents.discovery import find, traps, version
from holdfast.agents.registry import AgentRegistry
from holdfast.errors import BadInput


def check_agents(
    registry: AgentRegistry, tables: Mapping[str, Any], env: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Check every agent in parallel: where it is, its version, and its known problems."""
    with ThreadPoolExecutor(max_workers=8) as pool:  # each check waits for a program to start
        return list(
            pool.map(lambda agent: _check_agent(agent, tables.get(agent.name, {}), env), registry.agents)
        )


def _check_agent(agent: Agent, table: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    problem = None
    try:
        installed = find(agent, table, env) if agent.launch is not None else None
    except BadInput as wrong:
        installed, problem = None, wrong.message
    number = version(installed) if installed is not None and agent.version_args else None
    return {
        "name": agent.name,
        "title": agent.title,
        "aliases": list(agent.aliases),
        "protocols": list(agent.protocols),
        "runnable": agent.launch is not None,
        "path": installed.path if installed is not None else None,
        "command": list(installed.command) if installed is not None else None,
        "version": number,
        "install": agent.install or None,
        "problems": [*([problem] if problem else []), *traps(agent, number)],
    }
