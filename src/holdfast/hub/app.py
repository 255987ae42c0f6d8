"""The hub's application: all its handlers, how errors are told, and its OpenAPI document."""

from __future__ import annotations

import logging
import re
from typing import Annotated, Any
from urllib.parse import unquote

from litestar import Litestar, Request
from litestar.di import NamedDependency, Provide
from litestar.enums import MediaType
from litestar.exceptions import HTTPException, SerializationException, ValidationException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.params import HeaderParameter
from litestar.response.base import Response
from litestar.types import ASGIApp

from holdfast import __version__, errors
from holdfast.hub.api import (
    agents,
    doctor,
    folders,
    healed,
    imports,
    inbox,
    logins,
    page,
    responses,
    sessions,
    streams,
    system,
    tasks,
    tokens,
    uptime,
    verdicts,
    webhooks,
)
from holdfast.hub.api import sessions as events
from holdfast.hub.api import system as metrics
from holdfast.hub.api import system as overview
from holdfast.hub.api import tasks as dispatches
from holdfast.hub.auth import AccessRules, AuthMiddleware
from holdfast.hub.imports import ImportService
from holdfast.hub.state import HubState

BODY = 1024 * 1024  # bytes of a request
NAME = 200  # letters of who asks

ROUTES = [
    *sessions.ROUTES,
    *tokens.ROUTES,
    *events.EVENTS_ROUTES,
    *streams.ROUTES,
    *verdicts.ROUTES,
    *dispatches.DISPATCHES_ROUTES,
    *tasks.ROUTES,
    *agents.ROUTES,
    *overview.OVERVIEW_ROUTES,
    *inbox.ROUTES,
    *folders.ROUTES,
    *healed.ROUTES,
    *uptime.ROUTES,
    *imports.ROUTES,
    *doctor.ROUTES,
    *system.ROUTES,
    *metrics.METRICS_ROUTES,
    *webhooks.ROUTES,
    *logins.ROUTES,
    *page.ROUTES,
]
CODES = {401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}

# What msgspec says of a value that does not fit, and what a person is told.
VALIDATION_WORDS = (
    (r"Object missing required field `([^`]+)`", r"\1 is missing"),
    (r"Object contains unknown field `([^`]+)`", r"there is no field \1"),
    (r"Expected `str` of length >= 1", "must not be empty"),
    (r"Expected `([^`]+)` of length <= (\d+)", r"must not be longer than \2"),
    (r"Expected `(\w+)` (>=?|<=?) ([\d.]+?)(?:\.0)?", r"must be \2 \3"),
    (r"Expected `([^`]+)`, got `([^`]+)`", r"must be \1, not \2"),
    (r"Invalid enum value (.+)", r"\1 is not one of the possible values"),
    (r"Expected `str` matching regex .+", "is not written as expected"),
)

log = logging.getLogger(__name__)

Asked = Request[Any, Any, Any]
Said = Annotated[
    str | None,
    HeaderParameter(name="X-Holdfast-By", description="In whose name; percent-encoded. Else the hub's user."),
]


class ReadRoute(Request[Any, Any, Any]):
    """A request whose body may be anything at all."""

    async def json(self) -> Any:
        """Its body; what is not even text, or has no end of brackets, is as wrong as any other."""
        try:
            return await super().json()
        except (UnicodeDecodeError, RecursionError) as problem:
            raise SerializationException(f"that is no JSON: {problem}") from None


def make(hub: HubState, access: AccessRules, adopting: ImportService) -> ASGIApp:
    """The application of a hub, behind its gate."""
    return AuthMiddleware(bare(hub, adopting), access, hub.requests)


def bare(hub: HubState, adopting: ImportService) -> Litestar:
    """The same without the gate."""
    return Litestar(
        route_handlers=ROUTES,
        dependencies={
            "hub": Provide(lambda: hub, sync_to_thread=False),
            "adopting": Provide(lambda: adopting, sync_to_thread=False),
            "by": Provide(_by, sync_to_thread=False),
        },
        exception_handlers={
            errors.HoldfastError: _refused,
            HTTPException: _not_taken,
            Exception: _unforeseen,
        },
        openapi_config=OpenAPIConfig(
            title="Holdfast",
            version=__version__,
            path="/schema",
            create_examples=False,
            render_plugins=[JsonRenderPlugin(path=["/", "/openapi.json"], media_type=MediaType.JSON)],
        ),
        request_class=ReadRoute,
        request_max_body_size=BODY,
        logging_config=None,
    )


def _by(hub: NamedDependency[HubState], said: Said = None) -> str:
    """In whose name something is done."""
    return unquote(said, errors="replace")[:NAME].strip() if said and said.strip() else hub.by


def _refused(_: Asked, wrong: errors.HoldfastError) -> Response[Any]:
    return _told(responses.document(wrong))


def _not_taken(request: Asked, wrong: HTTPException) -> Response[Any]:
    if wrong.status_code >= 500:
        return _unforeseen(request, wrong)
    code = CODES.get(wrong.status_code, "bad_input")
    reasons = wrong.extra if isinstance(wrong.extra, list) else []
    detail = wrong.detail
    if isinstance(wrong, ValidationException):  # its own text has the whole address in it, with a token
        reasons = [{**one, "message": plain_reason(str(one["message"]))} for one in reasons]
        found = [f"{one.get('key', 'the body')}: {one['message']}" for one in reasons]
        detail = "; ".join(found) or "the request does not fit this address"
    return _told(responses.made(code, detail, facts={"reasons": reasons} if reasons else {}))


def plain_reason(message: str) -> str:
    """What a validator says of a value, without its quoting and its path into our types."""
    text = re.sub(r" - at `[^`]*`$", "", message)
    for pattern, instead in VALIDATION_WORDS:
        if found := re.fullmatch(pattern, text):
            return found.expand(instead)
    return text.replace("`", "")


def _unforeseen(request: Asked, wrong: Exception) -> Response[Any]:
    log.error("%s %s", request.method, request.url.path, exc_info=wrong)
    return _told(responses.made("error", f"unexpected: {type(wrong).__name__}", "the hub's log tells more"))


def _told(found: dict[str, Any]) -> Response[Any]:
    return Response(responses.encoded(found), media_type=responses.MEDIA_TYPE, status_code=found["status"])
