"""Tokens: an agent's own ids for a conversation, in a lineage that only grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from holdfast.model.session import Worktree

Status = Literal["current", "superseded", "revoked"]


class Token(msgspec.Struct, frozen=True):
    """One step of a session's lineage."""

    agent: str
    native_id: str
    protocol: str | None
    seen_in: str  # where it was seen: chosen, stream, store, import…
    at: str
    task: str | None
    status: Status
    reason: str | None = None


class TokenRules(msgspec.Struct, frozen=True):
    """What the agent registry says about tokens, as values, so that the store need not know agents."""

    fields: frozenset[str] = frozenset()  # metadata keys that name a token or its protocol
    default_protocol: Mapping[str, str] = {}  # by agent: the route of an id without a protocol


class ResumeTarget(msgspec.Struct, frozen=True):
    """All a launcher needs to resume a session."""

    session: str
    agent: str
    native_id: str
    protocol: str | None  # as routed: the agent's default where none was recorded
    cwd: str | None
    host: str | None
    worktree: Worktree | None


def current(tokens: Iterable[Token], agent: str) -> Token | None:
    """The token that a resume of that agent would use."""
    for token in tokens:
        if token.status == "current" and token.agent == agent:
            return token
    return None


def route(token: Token, rules: TokenRules) -> str | None:
    """The protocol to speak for that token (a cursor id without one is `stream-json`)."""
    return token.protocol or rules.default_protocol.get(token.agent)
