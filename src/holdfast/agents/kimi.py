"""Kimi Code."""

from __future__ import annotations

from holdfast.agents.agent import Agent

AGENT = Agent(name="kimi", title="Kimi Code", aliases=("kimi-code", "kimi-cli"), protocols=("acp",))
