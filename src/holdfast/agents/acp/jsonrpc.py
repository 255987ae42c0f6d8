"""Our side of JSON-RPC: the lines that we send, and which of our requests an answer is for."""

from __future__ import annotations

from typing import Any

from holdfast.model.json_codec import decode, encode

METHOD_NOT_FOUND = -32601


class JsonRpcPeer:
    """Requests numbered by a counter, so that the same conversation always has the same bytes.

    The ids of the agent's own requests are a space apart: they restart at 0 and meet ours.
    """

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[int, str] = {}  # id: method

    def request(self, method: str, params: dict[str, Any]) -> bytes:
        """A request that waits for its answer from now on."""
        number, self._next = self._next, self._next + 1
        self._waiting[number] = method
        return _line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def answered(self, message: dict[str, Any]) -> str | None:
        """The method of the request that a message answers; None if we did not ask that."""
        number = message.get("id")
        return self._waiting.pop(number, None) if type(number) is int else None


def notify(method: str, params: dict[str, Any]) -> bytes:
    """A notification."""
    return _line({"jsonrpc": "2.0", "method": method, "params": params})


def reply(request: Any, result: dict[str, Any]) -> bytes:
    """The answer to a request of the agent."""
    return _line({"jsonrpc": "2.0", "id": request, "result": result})


def refuse(request: Any, method: str) -> bytes:
    """The answer to a request that we offer nothing for."""
    problem = {"code": METHOD_NOT_FOUND, "message": f"Method not found: {method}"}
    return _line({"jsonrpc": "2.0", "id": request, "error": problem})


def _line(message: dict[str, Any]) -> bytes:
    return encode(message) + b"\n"


# --- JSON-RPC errors in words.

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
