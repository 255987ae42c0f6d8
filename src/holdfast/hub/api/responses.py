"""What handlers answer with, and how the OpenAPI document tells of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.response.base import ASGIResponse

from holdfast.errors import HoldfastError
from holdfast.hub.state import HubState

MEDIA_TYPE = "application/problem+json"

STATUS = {
    "ambiguous": 409,
    "agent_missing": 409,
    "agent_unusable": 409,
    "bad_host": 403,
    "bad_input": 400,
    "bad_origin": 403,
    "commit_unknown": 503,
    "disk_full": 503,
    "error": 500,
    "forbidden": 403,
    "hub_gone": 503,
    "illegal_change": 409,
    "key_taken": 409,
    "metadata_invalid": 400,
    "metadata_unreadable": 409,
    "method_not_allowed": 405,
    "not_found": 404,
    "plan_changed": 409,
    "program_running": 409,
    "port_taken": 503,
    "refused": 409,
    "resume_unavailable": 409,
    "resume_unsafe": 409,
    "schema_newer": 503,
    "session_deleted": 409,
    "session_running": 409,
    "stale_generation": 409,
    "store_busy": 503,
    "store_closed": 503,
    "store_missing": 503,
    "store_read_only": 503,
    "store_unreachable": 503,
    "store_unreadable": 503,
    "task_cancelled": 409,
    "task_failed": 409,
    "task_interrupted": 409,
    "token_field": 400,
    "too_large": 413,
    "unauthorized": 401,
    "unstorable_text": 400,
    "version_mismatch": 409,
}
TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    500: "Internal error",
    503: "Service unavailable",
}


if TYPE_CHECKING:
    Code = str
else:
    Code = Literal[tuple(sorted(STATUS))]


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Why something was not done; what stands behind the hint is told where the code has it to tell."""

    type: str  # a name for the code, not an address
    title: str
    status: int
    detail: str
    code: Code
    hint: str = ""
    reasons: list[str | dict[str, Any]] | None = None  # one by one
    session: str | None = None  # that is in the way
    task: str | None = None
    tasks: list[str] | None = None
    processes: list[Any] | None = None
    signs: list[Any] | None = None  # by which a program is known to run
    version: int | None = None  # as it is now
    metadata: dict[str, Any] | None = None
    generation: int | None = None


def codes_of(status: int) -> list[str]:
    """The codes that are told with a status."""
    return [code for code, found in STATUS.items() if found == status]


def status_of(code: str) -> int:
    """The HTTP status of an error's code."""
    return STATUS.get(code, 500)


def document(problem: HoldfastError) -> dict[str, Any]:
    """The problem as it goes out, with the facts that the error brings."""
    return made(problem.code, problem.message, problem.hint, problem.facts)


def made(code: str, detail: str, hint: str = "", facts: dict[str, Any] | None = None) -> dict[str, Any]:
    """A problem of that code."""
    status = status_of(code)
    return {
        **(facts or {}),
        "type": f"urn:holdfast:problem:{code}",
        "title": TITLES[status],
        "status": status,
        "detail": detail,
        "code": code,
        "hint": hint,
    }


def encoded(found: dict[str, Any]) -> bytes:
    """The bytes of a problem."""
    return msgspec.json.encode(found)


# --- What handlers answer with, and how the OpenAPI document tells of it.

JSON = "application/json"
STREAM = "text/event-stream"
ALWAYS = (400, 401, 403, 500, 503)  # may come of every request


def told(status: int, shape: Any, kind: str = JSON, about: str = "Done") -> dict[int, ResponseSpec]:
    """An answer that a handler makes by itself, for the OpenAPI document."""
    return {status: ResponseSpec(shape, generate_examples=False, media_type=kind, description=about)}


def fails(*more: int) -> dict[int, ResponseSpec]:
    """The problems that a handler may answer with: those that all may, and these."""
    return {
        status: ResponseSpec(
            ProblemDetails, generate_examples=False, media_type=MEDIA_TYPE, description=_codes(status)
        )
        for status in sorted({*ALWAYS, *more})
    }


def _codes(status: int) -> str:
    return f"{TITLES[status]}: " + ", ".join(f"`{code}`" for code in codes_of(status))


def json(value: Any, status: int = 200) -> ASGIResponse:
    """A value as the answer."""
    return raw(msgspec.json.encode(value), status)


def raw(body: bytes, status: int = 200, kind: str = JSON) -> ASGIResponse:
    """Bytes as the answer."""
    return ASGIResponse(body=body, media_type=kind, status_code=status)


# --- What handlers are given besides what a request brings.

TheHub = NamedDependency[HubState]
By = NamedDependency[str]  # in whose name
