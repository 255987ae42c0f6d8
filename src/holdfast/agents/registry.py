"""All agents: the ones we know, and any ACP agent from the config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.agents import acp, claude, codex, cursor, demo, gemini, hermes, kimi, opencode
from holdfast.agents.base import Agent
from holdfast.errors import BadInput, NotFound
from holdfast.model.token import TokenRules

KNOWN: tuple[Agent, ...] = (
    claude.AGENT,
    codex.AGENT,
    gemini.AGENT,
    opencode.AGENT,
    kimi.AGENT,
    cursor.AGENT,
    hermes.AGENT,
    demo.AGENT,
)


class AgentRegistry:
    """Agents by name and alias."""

    def __init__(self, agents: Iterable[Agent] = KNOWN):
        """All of `agents`; two of one name are refused."""
        self.agents = tuple(agents)
        self._by_name: dict[str, Agent] = {}
        for agent in self.agents:
            for name in (agent.name, *agent.aliases):
                if name in self._by_name:
                    raise BadInput(f"two agents are called {name!r}")
                self._by_name[name] = agent

    @classmethod
    def from_config(cls, agents: Mapping[str, Any]) -> AgentRegistry:
        """The known agents and those of the config's `[agents.NAME]` tables."""
        extra = []
        for name, table in agents.items():
            if not isinstance(table, dict):
                raise BadInput(f"config.toml: agents.{name} must be a table")
            if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
                raise BadInput(f"config.toml: {name!r} is no name for an agent; use letters, digits and -")
            if any(name == known.name for known in KNOWN):
                continue  # settings of an agent that we know
            extra.append(acp.entry(name, table))
        return cls((*KNOWN, *extra))

    def get(self, name: str) -> Agent:
        """The agent of that name or alias."""
        agent = self._by_name.get(name)
        if agent is None:
            raise NotFound(
                f"there is no agent called {name!r}",
                hint="known: " + ", ".join(a.name for a in self.agents),
            )
        return agent

    def token_rules(self) -> TokenRules:
        """What the store must know of tokens."""
        return TokenRules(
            fields=frozenset(field for agent in self.agents for field in agent.token_fields),
            default_protocol={
                agent.name: agent.unnamed_protocol
                for agent in self.agents
                if agent.unnamed_protocol is not None
            },
        )
