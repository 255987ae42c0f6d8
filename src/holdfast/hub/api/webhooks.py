"""Deliveries of forges over HTTP; they bring a signature in place of the token."""

from __future__ import annotations

import logging
from typing import Any

from litestar import Request, post
from litestar.params import FromPath

from holdfast import config, errors
from holdfast.forges import settings, webhook
from holdfast.forges.settings import Forge
from holdfast.forges.webhook import DeliveryResult
from holdfast.hub.api.responses import TheHub, fails
from holdfast.hub.state import HubState

BODY = 4 * 1024 * 1024  # bytes of a delivery; that of an issue has some ten thousand

log = logging.getLogger(__name__)


@post(
    "/hooks/{forge:str}",
    operation_id="receiveDelivery",
    summary="Hear of an issue that was assigned on a forge",
    status_code=200,
    request_max_body_size=BODY,
    responses=fails(404, 409, 413),
    security=[],
)
async def receive_delivery(
    hub: TheHub, forge: FromPath[str], request: Request[Any, Any, Any]
) -> DeliveryResult:
    """The task that it came to, now or when it was delivered first; or why it is ignored."""
    sender = webhook.get_forge(_forges(hub), forge)
    headers = {name.lower(): value for name, value in request.headers.items()}
    return await webhook.receive(hub.context, hub.deliveries, sender, headers, await request.body())


def _forges(hub: HubState) -> dict[str, Forge]:
    """The forges as the config has them now; what is wrong with it is not for a stranger to read."""
    try:
        return settings.read_forges(config.load(hub.home))
    except errors.BadInput as problem:
        log.error("%s", problem.message)
        raise errors.StoreBusy(
            "the config of this hub cannot be read", hint="the hub's log tells more"
        ) from None


ROUTES = [receive_delivery]
