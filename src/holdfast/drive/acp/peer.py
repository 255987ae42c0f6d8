"""Our side of JSON-RPC: the lines that we send, and which of our requests an answer is for."""

from __future__ import annotations

from typing import Any

from holdfast.model.text import encode

METHOD_NOT_FOUND = -32601


class Peer:
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
