"""Cursor."""

from __future__ import annotations

from holdfast.agents.agent import Agent

AGENT = Agent(
    name="cursor",
    title="Cursor",
    aliases=("cursor-agent",),
    protocols=("acp", "stream-json"),
    # Ids from before its ACP mode were kept without a protocol, and only `agent -p` opens those.
    unnamed_protocol="stream-json",
)
