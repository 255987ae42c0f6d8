"""The agents as hapi calls them, and under which key of the metadata each has its token."""

from __future__ import annotations

from typing import NamedTuple


class Flavor(NamedTuple):
    """One kind of agent that hapi wraps."""

    name: str
    token: str | None  # the metadata key; None: it cannot be resumed
    agent: str | None = None  # what we call it, if we can read its own store


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
