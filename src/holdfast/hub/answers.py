"""What handlers answer with, and how the OpenAPI document tells of it."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar.openapi.datastructures import ResponseSpec
from litestar.response.base import ASGIResponse

from holdfast.hub import problem
from holdfast.hub.problem import TITLES, Problem

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
            Problem, generate_examples=False, media_type=problem.MEDIA_TYPE, description=_codes(status)
        )
        for status in sorted({*ALWAYS, *more})
    }


def _codes(status: int) -> str:
    return f"{TITLES[status]}: " + ", ".join(f"`{code}`" for code in problem.codes_of(status))


def json(value: Any, status: int = 200) -> ASGIResponse:
    """A value as the answer."""
    return raw(msgspec.json.encode(value), status)


def raw(body: bytes, status: int = 200, kind: str = JSON) -> ASGIResponse:
    """Bytes as the answer."""
    return ASGIResponse(body=body, media_type=kind, status_code=status)
