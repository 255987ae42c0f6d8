"""JSON-RPC errors in words."""

from __future__ import annotations

from typing import Any

from holdfast.model.text import decode

AUTH_REQUIRED = -32000
# Errors that say that a request was never taken: its form or the login was at fault.
_NOT_TAKEN = frozenset({AUTH_REQUIRED, -32600, -32601, -32602, -32700})


def number_of(problem: Any) -> int | None:
    """An error's code."""
    number = problem.get("code") if isinstance(problem, dict) else None
    return number if type(number) is int else None


def was_taken(problem: Any) -> bool:
    """Whether the agent had begun on what it then failed at."""
    return number_of(problem) not in _NOT_TAKEN


def text_of(problem: Any) -> str:
    """An error's message, with what its data tells more."""
    if not isinstance(problem, dict):
        return str(problem)
    message = problem.get("message")
    text = _inner(message) if isinstance(message, str) and message else f"error {problem.get('code')}"
    data = problem.get("data")
    more = (data.get("details") or data.get("message")) if isinstance(data, dict) else data
    return f"{text}: {more}" if isinstance(more, str) and more and more not in text else text


def _inner(text: str) -> str:
    """Gemini hands on what the API said as JSON."""
    try:
        inner = decode(text)
    except (ValueError, RecursionError):
        return text
    told = inner.get("error") if isinstance(inner, dict) else None
    message = told.get("message") if isinstance(told, dict) else None
    return message if isinstance(message, str) and message else text
