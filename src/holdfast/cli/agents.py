"""`holdfast agents`."""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdfast import config
from holdfast.agents.agent import Agent
from holdfast.agents.find import find, traps, version
from holdfast.agents.registry import Registry
from holdfast.cli import options, output
from holdfast.errors import BadInput


def parser(name: str) -> argparse.ArgumentParser:
    """Nothing but the shared options."""
    return options.parser(name, "What is installed here, and what is known not to work with it.")


def run(given: argparse.Namespace) -> int:
    """Look for every agent at once, and print what was found."""
    home, _ = options.place(given)
    tables = config.load(home).get("agents", {})
    registry = Registry.from_config(tables)
    with ThreadPoolExecutor(max_workers=8) as pool:  # each look waits for a program to start
        found = list(pool.map(lambda agent: _look(agent, tables.get(agent.name, {})), registry.agents))
    if given.json:
        output.json_line(found)
        return 0
    rows = [(a["name"], a["version"] or "-", a["path"] or _absent(a)) for a in found]
    output.table(("AGENT", "VERSION", "WHERE"), rows)
    for agent in found:
        for trap in agent["problems"] if agent["path"] else ():
            output.text(f"{agent['name']}: {trap}")
    return 0


def _look(agent: Agent, table: dict[str, Any]) -> dict[str, Any]:
    problem = None
    try:
        place = find(agent, table, os.environ) if agent.launch is not None else None
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


def _absent(agent: dict[str, Any]) -> str:
    if not agent["runnable"]:
        return "(Holdfast cannot run it yet)"
    return f"not installed ({agent['install']})" if agent["install"] else "not installed"
