"""What a person does to a session's token: record the agent's id by hand, revoke it, reinstate it."""

from __future__ import annotations

import msgspec

from holdfast import errors
from holdfast.agents.registry import AgentRegistry
from holdfast.model import changes as c
from holdfast.model.commit import Commit
from holdfast.model.token import Token, current
from holdfast.store.store import Store

BY_PERSON = "person"  # where a recorded token was seen


class Lineage(msgspec.Struct, frozen=True):
    """A session's tokens, oldest first, and the one that a resume uses."""

    session: str
    agent: str
    current: str | None
    tokens: list[Token]


async def lineage(store: Store, session: str) -> Lineage:
    """The tokens as they are."""
    agent = (await store.session(session)).agent
    tokens = await store.tokens(session)
    now = current(tokens, agent)
    return Lineage(session, agent, None if now is None else now.native_id, tokens)


async def record(
    store: Store, registry: AgentRegistry, session: str, native_id: str, protocol: str | None, by: str
) -> Lineage:
    """Make the agent's id the current token; the token of before stays in the lineage."""
    before = await lineage(store, session)
    agent = registry.get(before.agent)
    agent.check_native_id(native_id)
    known = agent.protocols
    if protocol is not None and protocol not in known:
        raise errors.BadInput(
            f"{before.agent} has no protocol {protocol!r}", hint=f"one of {', '.join(known)}"
        )
    revoked = _last_revoked(before)
    if before.current is None and revoked is not None and revoked.native_id == native_id:
        raise errors.IllegalChange(
            f"token {native_id} is revoked: {revoked.reason}",
            hint=f"`holdfast token {session} reinstate` takes that back",
        )
    change = c.SeeToken(
        agent=before.agent, native_id=native_id, protocol=protocol, seen_in=BY_PERSON, by=by or None
    )
    await store.commit(Commit(session, [change]))
    return await lineage(store, session)


async def revoke(store: Store, session: str, native_id: str | None, reason: str, by: str) -> Lineage:
    """The current token is not resumed any more; it stays in the lineage."""
    before = await lineage(store, session)
    wanted = native_id or before.current
    if wanted is None and _last_revoked(before) is not None:
        return before  # it is revoked already
    if wanted is None:
        raise errors.NoToken(f"session {session} has no current token of {before.agent}", hint="")
    change = c.RevokeToken(agent=before.agent, native_id=wanted, reason=reason, by=by or None)
    await store.commit(Commit(session, [change]))
    return await lineage(store, session)


async def reinstate(store: Store, session: str, native_id: str | None, reason: str, by: str) -> Lineage:
    """Take a revocation back: the last one, unless an id says which."""
    before = await lineage(store, session)
    revoked = _last_revoked(before)
    wanted = native_id or (before.current if revoked is None else revoked.native_id)
    if wanted is None:
        raise errors.IllegalChange(f"no token of session {session} is revoked")
    change = c.ReinstateToken(agent=before.agent, native_id=wanted, reason=reason, by=by or None)
    await store.commit(Commit(session, [change]))
    return await lineage(store, session)


def _last_revoked(found: Lineage) -> Token | None:
    own = [token for token in found.tokens if token.agent == found.agent and token.status == "revoked"]
    return own[-1] if own else None
