"""The agents that hapi wraps, and the metadata key of each agent's token."""

from __future__ import annotations

from typing import NamedTuple


class Flavor(NamedTuple):
    """One kind of agent that hapi wraps."""

    name: str
    token: str | None  # the metadata key; None: its sessions cannot be resumed
    agent: str | None = None  # our name for it, if we can read its own store


FLAVORS = {
    flavor.name: flavor
    for flavor in (
        Flavor("claude", "claudeSessionId", "claude"),
        Flavor("codex", "codexSessionId", "codex"),
        Flavor("cursor", "cursorSessionId", "cursor"),
        Flavor("gemini", "geminiSessionId", "gemini"),
        Flavor("opencode", "opencodeSessionId", "opencode"),
        Flavor("kimi", "kimiSessionId", "kimi"),
        Flavor("copilot", "copilotSessionId"),
        Flavor("grok", "grokSessionId"),
        Flavor("agy", "agySessionId"),
        Flavor("pi", "piSessionId"),
        Flavor("dsh", None),
    )
}

TOKENS = tuple(flavor.token for flavor in FLAVORS.values() if flavor.token)

PROTOCOL = "cursorSessionProtocol"
PROTOCOLS = ("acp", "stream-json")
