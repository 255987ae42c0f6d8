"""`holdfast agents`."""

from __future__ import annotations

import argparse
import os
from typing import Any

from holdfast import config
from holdfast.agents.installed import check_agents
from holdfast.agents.registry import AgentRegistry
from holdfast.cli import common, output


def parser(name: str) -> argparse.ArgumentParser:
    """Nothing but the shared options."""
    return common.parser(name, "List the agents that are installed here, and their known problems.")


def run(options: argparse.Namespace) -> int:
    """Look for every agent, and print the result."""
    home, _ = common.home_and_location(options)
    tables = config.load(home).get("agents", {})
    found = check_agents(AgentRegistry.from_config(tables), tables, os.environ)
    if options.json:
        output.json_line(found)
        return 0
    rows = [(a["name"], a["version"] or "-", a["path"] or _absent(a)) for a in found]
    output.table(("AGENT", "VERSION", "WHERE"), rows)
    for agent in found:
        for trap in agent["problems"] if agent["path"] else ():
            output.text(f"{agent['name']}: {trap}")
    return 0


def _absent(agent: dict[str, Any]) -> str:
    if not agent["runnable"]:
        return "(Holdfast cannot run it yet)"
    return f"not installed ({agent['install']})" if agent["install"] else "not installed"
