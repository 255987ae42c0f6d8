"""Claude Code."""

from __future__ import annotations

from holdfast.agents.agent import Agent

AGENT = Agent(name="claude", title="Claude Code", aliases=("claude-code",), protocols=("stream-json",))
