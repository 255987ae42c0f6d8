"""A session's tokens over HTTP: the lineage, and what a person changes about it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import get, post
from litestar.params import FromPath, JSONBody

from holdfast.hub.api.responses import By, TheHub, fails
from holdfast.hub.api.sessions import BY_HAND, Reason
from holdfast.runner import tokens
from holdfast.runner.tokens import Lineage

NativeId = Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]


class RecordToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The agent's own id, as a person knows it."""

    native_id: NativeId
    protocol: str | None = None


class Revocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why the token is not resumed any more; the current one, unless `native_id` says which."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]
    native_id: NativeId | None = None


class Reinstatement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which revocation is taken back, and why; the last one, unless `native_id` says which."""

    reason: Reason = BY_HAND
    native_id: NativeId | None = None


@get(
    "/api/sessions/{session:str}/tokens",
    operation_id="listTokens",
    summary="The lineage of a session's tokens",
    responses=fails(404, 409),
)
async def list_tokens(hub: TheHub, session: FromPath[str]) -> Lineage:
    """Oldest first."""
    return await tokens.lineage(hub.store, await hub.resolve(session))


@post(
    "/api/sessions/{session:str}/tokens",
    operation_id="recordToken",
    summary="Record the agent's own id by hand; the token of before stays in the lineage",
    status_code=200,
    responses=fails(404, 409, 413),
)
async def record_token(hub: TheHub, by: By, session: FromPath[str], data: JSONBody[RecordToken]) -> Lineage:
    """The lineage with it."""
    found = await hub.resolve(session)
    return await tokens.record(hub.store, hub.context.registry, found, data.native_id, data.protocol, by)


@post(
    "/api/sessions/{session:str}/tokens/revoke",
    operation_id="revokeToken",
    summary="A token must not be resumed any more; it stays in the lineage",
    status_code=200,
    responses=fails(404, 409, 413),
)
async def revoke_token(hub: TheHub, by: By, session: FromPath[str], data: JSONBody[Revocation]) -> Lineage:
    """The lineage then."""
    found = await hub.resolve(session)
    return await tokens.revoke(hub.store, found, data.native_id, data.reason, by)


@post(
    "/api/sessions/{session:str}/tokens/reinstate",
    operation_id="reinstateToken",
    summary="Take a revocation back",
    status_code=200,
    responses=fails(404, 409, 413),
)
async def reinstate_token(
    hub: TheHub, by: By, session: FromPath[str], data: JSONBody[Reinstatement]
) -> Lineage:
    """The lineage then."""
    found = await hub.resolve(session)
    return await tokens.reinstate(hub.store, found, data.native_id, data.reason, by)


ROUTES = [list_tokens, record_token, revoke_token, reinstate_token]
