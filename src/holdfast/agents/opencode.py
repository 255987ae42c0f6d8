"""OpenCode."""

from __future__ import annotations

from holdfast.agents.agent import Agent

AGENT = Agent(name="opencode", title="OpenCode", aliases=(), protocols=("acp",))
