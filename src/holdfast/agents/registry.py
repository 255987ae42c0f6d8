"""Which agents are there? Every folder of this package with an `AGENT`, and any ACP agent in config.toml."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast import agents as package
from holdfast.agents import acp
from holdfast.agents.base import Agent
from holdfast.agents.driver import AgentJob, Driver
from holdfast.errors import BadInput, NotFound
from holdfast.model.token import TokenRules


def discover() -> tuple[Agent, ...]:
    """The `AGENT` of each folder in `agents/`, in alphabetical order; a folder without one is shared code.

    This imports the entries only. An entry imports its driver and its reader when they are needed.
    """
    folders = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg)
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in folders]
    return tuple(module.AGENT for module in modules if hasattr(module, "AGENT"))


KNOWN = discover()


class AgentRegistry:
    """Agents by name and alias."""

    def __init__(self, agents: Iterable[Agent] = KNOWN):
        """Index these agents; two with one name or alias are refused."""
        self.agents = tuple(agents)
        self._by_name: dict[str, Agent] = {}
        for agent in self.agents:
            for name in (agent.name, *agent.aliases):
                if name in self._by_name:
                    raise BadInput(f"two agents are named {name!r}")
                self._by_name[name] = agent

    @classmethod
    def from_config(cls, agents: Mapping[str, Any]) -> AgentRegistry:
        """The known agents and those of the config's `[agents.NAME]` tables."""
        extra = []
        for name, table in agents.items():
            if not isinstance(table, dict):
                raise BadInput(f"config.toml: agents.{name} must be a table")
            if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
                raise BadInput(f"config.toml: {name!r} is not a valid agent name; use letters, digits and -")
            if any(name == known.name for known in KNOWN):
                continue  # settings of a known agent
            extra.append(acp.entry(name, table))
        return cls((*KNOWN, *extra))

    def get(self, name: str) -> Agent:
        """The agent with this name or alias."""
        agent = self._by_name.get(name)
        if agent is None:
            raise NotFound(
                f"there is no agent named {name!r}",
                hint="known: " + ", ".join(a.name for a in self.agents),
            )
        return agent

    def make_driver(self, job: AgentJob) -> Driver:
        """A driver for one process of the job's agent."""
        agent = self.get(job.agent)
        if agent.driver is None:
            raise BadInput(f"Holdfast cannot run {agent.title}")
        return agent.driver(job)

    def token_rules(self) -> TokenRules:
        """What the store must know about tokens."""
        return TokenRules(
            fields=frozenset(field for agent in self.agents for field in agent.token_fields),
            default_protocol={
                agent.name: agent.unnamed_protocol
                for agent in self.agents
                if agent.unnamed_protocol is not None
            },
        )
