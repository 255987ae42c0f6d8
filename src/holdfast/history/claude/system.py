"""What the CLI itself says in a transcript: its `system` records, in the words of the stream."""

from __future__ import annotations

import re
from typing import Any

from holdfast.drive import line as wire
from holdfast.drive.claude import parts
from holdfast.history.claude.kinds import QUIET_SYSTEM
from holdfast.history.claude.record import Record
from holdfast.model.event import NewEvent

_STDOUT = re.compile(r"<local-command-std(?:out|err)>(.*)</local-command-std(?:out|err)>\s*", re.DOTALL)
_API_ERROR = re.compile(r'"type":"(\w+)_error"')
_API_ERRORS = {"api": "server_error"}


def told(record: Record, raw: bytes) -> NewEvent | None:
    """What a `system` record says; None if that is nothing about the work."""
    if record.subtype in QUIET_SYSTEM:
        return None
    value = wire.parse(raw)
    if not isinstance(value, dict):
        return value
    if record.subtype == "api_error":
        return parts.told(_retry(value))
    content = value.get("content")
    found = _STDOUT.fullmatch(content) if isinstance(content, str) else None
    if record.subtype == "local_command" and found is not None:
        # The stream has it as the words of a model «<synthetic>», with the same uuid and without marks.
        return wire.notice("synthetic", found[1].strip())
    return parts.told(value)


def _retry(value: dict[str, Any]) -> dict[str, Any]:
    """A stored `api_error` as the stream has it: «rate_limit» where the API says «rate_limit_error»."""
    error = value.get("error")
    told = error if isinstance(error, dict) else {}
    kind = _API_ERROR.search(wire.word(told, "message"))
    why = _API_ERRORS.get(kind[1], kind[1]) if kind else told.get("formatted")
    return {
        "subtype": "api_retry",
        "error_status": told.get("status") if isinstance(told.get("status"), int) else None,
        "error": why if isinstance(why, str) else None,
        "attempt": value.get("retryAttempt"),
        "max_retries": value.get("maxRetries"),
    }
