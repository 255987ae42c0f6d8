"""What is written to Claude Code's stdin, one line each."""

from __future__ import annotations

import uuid
from typing import Any

from holdfast.drive.driver import Ask, Decision
from holdfast.model import text

REFUSAL = "The user refused this."


def prompt_id(task: str) -> str:
    """The uuid that a task's prompt gets.

    2.1.197 and 2.1.325 keep it as their record's, and take no second prompt of the same uuid.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"holdfast:{task}:prompt"))


def prompt(task: str, words: str) -> bytes:
    """The user's message."""
    message = {"role": "user", "content": words}
    rest = {"parent_tool_use_id": None, "session_id": "", "uuid": prompt_id(task)}
    return _line({"type": "user", "message": message, **rest})


def request(id: str, subtype: str, **fields: Any) -> bytes:
    """A control request of ours."""
    return _line({"type": "control_request", "request_id": id, "request": {"subtype": subtype, **fields}})


def decision(ask: Ask, decided: Decision) -> bytes:
    """The answer to a permission."""
    said: dict[str, Any] = {"behavior": "deny", "message": REFUSAL}
    if decided == "allow":
        said = {"behavior": "allow", "updatedInput": ask.input}
    return _response({"subtype": "success", "request_id": ask.id, "response": said})


def refusal(id: str) -> bytes:
    """The answer to a request that we do not know; without one the CLI would wait for ever."""
    return _response({"subtype": "error", "request_id": id, "error": "this host does not do that"})


def _response(response: dict[str, Any]) -> bytes:
    return _line({"type": "control_response", "response": response})


def _line(message: dict[str, Any]) -> bytes:
    return text.encode(message) + b"\n"
