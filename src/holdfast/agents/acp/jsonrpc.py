"""What does our side of JSON-RPC send, and which of our requests does a response belong to?"""

from __future__ import annotations

from typing import Any

from holdfast.model.json_codec import decode, encode

METHOD_NOT_FOUND = -32601


class JsonRpcPeer:
    """Requests are numbered by a counter, so the same conversation always produces the same bytes.

    The agent's own request ids are a separate space: they restart at 0 and overlap with ours.
    """

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[int, str] = {}  # id -> method

    def request(self, method: str, params: dict[str, Any]) -> bytes:
        """A request that expects a response."""
        number, self._next = self._next, self._next + 1
        self._waiting[number] = method
        return _line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def answered(self, message: dict[str, Any]) -> str | None:
        """The method of the request that a message responds to; None if we sent no such request."""
        number = message.get("id")
        return self._waiting.pop(number, None) if type(number) is int else None


def notify(method: str, params: dict[str, Any]) -> bytes:
    """A notification."""
    return _line({"jsonrpc": "2.0", "method": method, "params": params})


def reply(request: Any, result: dict[str, Any]) -> bytes:
    """The response to a request of the agent."""
    return _line({"jsonrpc": "2.0", "id": request, "result": result})


def refuse(request: Any, method: str) -> bytes:
    """The response to a request that we do not support."""
    problem = {"code": METHOD_NOT_FOUND, "message": f"Method not found: {method}"}
    return _line({"jsonrpc": "2.0", "id": request, "error": problem})


def _line(message: dict[str, Any]) -> bytes:
    return encode(message) + b"\n"


# --- JSON-RPC errors as text

AUTH_REQUIRED = -32000
# These errors mean that the request was not accepted: its form or the login was wrong.
_NOT_TAKEN = frozenset({AUTH_REQUIRED, -32600, -32601, -32602, -32700})


def error_code(problem: Any) -> int | None:
    """An error's code."""
    number = problem.get("code") if isinstance(problem, dict) else None
    return number if type(number) is int else None


def was_accepted(problem: Any) -> bool:
    """Whether the agent had accepted the request before it failed."""
    return error_code(problem) not in _NOT_TAKEN


def error_text(problem: Any) -> str:
    """An error's message, with the details in its data."""
    if not isinstance(problem, dict):
        return str(problem)
    message = problem.get("message")
    text = _inner(message) if isinstance(message, str) and message else f"error {problem.get('code')}"
    data = problem.get("data")
    more = (data.get("details") or data.get("message")) if isinstance(data, dict) else data
    return f"{text}: {more}" if isinstance(more, str) and more and more not in text else text


def _inner(text: str) -> str:
    """Gemini wraps the API's message in JSON."""
    try:
        inner = decode(text)
    except (ValueError, RecursionError):
        return text
    error = inner.get("error") if isinstance(inner, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) and message else text
