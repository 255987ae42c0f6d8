"""Whether the hub is well, and what was put right at its start."""

from __future__ import annotations

from typing import Literal

import msgspec
from litestar import get

from holdfast import __version__
from holdfast.hub.answers import fails
from holdfast.hub.given import TheHub
from holdfast.hub.hub import Failure, Healed


class Health(msgspec.Struct, frozen=True):
    """A sign of life."""

    status: Literal["ok", "opening"]  # opening: the store is being opened again
    version: str
    started_at: str
    store: str
    healed: Healed | None
    failure: Failure | None  # while `opening`: why; while `ok`: what is over


@get("/healthz", operation_id="health", summary="Whether the hub is well", responses=fails())
async def health(hub: TheHub) -> Health:
    """Asks nothing of the store."""
    status: Literal["ok", "opening"] = "ok" if hub.is_open else "opening"
    return Health(status, __version__, hub.started_at, hub.location.kind, hub.healed, hub.failure)


ROUTES = [health]
