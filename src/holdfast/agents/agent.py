"""What an agent is, as far as its tokens go."""

from __future__ import annotations

import msgspec


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One coding agent; its entry is the only place that knows it."""

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    protocols: tuple[str, ...]  # how a conversation of it can be driven, the usual one first
    unnamed_protocol: str | None = None  # the route of a token that was recorded without a protocol

    @property
    def token_fields(self) -> tuple[str, ...]:
        """The metadata keys under which other tools keep its token; ours may never hold one there."""
        stem = "".join(c for c in self.name if c.isalnum() or c in "-_")
        return (f"{stem}SessionId", f"{stem}SessionProtocol")
