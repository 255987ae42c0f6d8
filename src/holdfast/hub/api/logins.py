"""Logins over HTTP: which browsers are logged in, and ending their logins."""

from __future__ import annotations

import asyncio

import msgspec
from litestar import delete, get
from litestar.params import FromPath

from holdfast.hub.api.responses import TheHub, fails


class PageLogin(msgspec.Struct, frozen=True):
    """One login of the page; its secret is stored as a hash and never shown."""

    id: str
    created_at: str
    used_at: str
    expires_at: str
    client: str
    host: str


class PageLogins(msgspec.Struct, frozen=True):
    """The logins that are valid, the latest first."""

    logins: list[PageLogin]


class Revoked(msgspec.Struct, frozen=True):
    """How many logins were ended."""

    revoked: int


@get("/api/logins", operation_id="listLogins", summary="The logins of the page", responses=fails())
async def list_logins(hub: TheHub) -> PageLogins:
    """Without their secrets."""
    found = await asyncio.to_thread(hub.logins.all)
    return PageLogins([PageLogin(*login) for login in found])


@delete(
    "/api/logins/{login:str}",
    operation_id="revokeLogin",
    summary="End a login; its streams end too",
    status_code=200,
    responses=fails(404),
)
async def revoke_login(hub: TheHub, login: FromPath[str]) -> Revoked:
    """At once."""
    await asyncio.to_thread(hub.logins.revoke, login)
    return Revoked(1)


@delete(
    "/api/logins",
    operation_id="revokeLogins",
    summary="End every login; the token stays as it is",
    status_code=200,
    responses=fails(),
)
async def revoke_logins(hub: TheHub) -> Revoked:
    """At once."""
    return Revoked(await asyncio.to_thread(hub.logins.revoke_all))


ROUTES = [list_logins, revoke_login, revoke_logins]
