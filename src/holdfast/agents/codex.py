"""Codex."""

from __future__ import annotations

from holdfast.agents.agent import Agent

AGENT = Agent(name="codex", title="Codex", aliases=(), protocols=("exec-json",))
