"""Gemini CLI."""

from __future__ import annotations

from holdfast.agents.agent import Agent

AGENT = Agent(name="gemini", title="Gemini CLI", aliases=("gemini-cli",), protocols=("acp",))
