"""How does Claude Code ask for permissions, and what does Holdfast answer?"""

from __future__ import annotations

import uuid
from typing import Any

from holdfast.agents.driver import Decision, DriverOutput, Entry, PermissionRequest, Policy
from holdfast.model import json_codec
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl

REFUSAL = "The user refused this."


def prompt_id(task: str) -> str:
    """The uuid of a task's prompt.

    2.1.197 and 2.1.325 keep it as the record's uuid and accept no second prompt with the same uuid.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"holdfast:{task}:prompt"))


def prompt(task: str, words: str) -> bytes:
    """The user's message."""
    message = {"role": "user", "content": words}
    rest = {"parent_tool_use_id": None, "session_id": "", "uuid": prompt_id(task)}
    return _line({"type": "user", "message": message, **rest})


def request(id: str, subtype: str, **fields: Any) -> bytes:
    """A control request to the CLI."""
    return _line({"type": "control_request", "request_id": id, "request": {"subtype": subtype, **fields}})


def decision(ask: PermissionRequest, decided: Decision) -> bytes:
    """The answer to a permission request."""
    answer: dict[str, Any] = {"behavior": "deny", "message": REFUSAL}
    if decided == "allow":
        answer = {"behavior": "allow", "updatedInput": ask.input}
    return _response({"subtype": "success", "request_id": ask.id, "response": answer})


def refusal(id: str) -> bytes:
    """The answer to an unknown request; without one the CLI waits forever."""
    return _response({"subtype": "error", "request_id": id, "error": "this host does not do that"})


def _response(response: dict[str, Any]) -> bytes:
    return _line({"type": "control_response", "response": response})


def _line(message: dict[str, Any]) -> bytes:
    return json_codec.encode(message) + b"\n"


# --- Permission requests

OPTIONS = ({"id": "allow", "name": "Allow"}, {"id": "deny", "name": "Deny"})
DETAILS = ("description", "blocked_path", "decision_reason")  # further fields of a request


class ClaudePermissions:
    """Pending permission requests, and how the others ended."""

    def __init__(self, policy: Policy):
        """Start with no requests, under this policy."""
        self.waiting: dict[str, PermissionRequest] = {}
        self.refused: set[str] = set()  # calls
        self._policy: Policy = policy
        self._withdrawn: set[str] = set()  # calls

    def on_request(self, record: dict[str, Any], parent: str | None) -> DriverOutput:
        """Log a `can_use_tool` request, and answer it at once unless a person decides."""
        request = record["request"]
        id, call, name = record["request_id"], request.get("tool_use_id"), request.get("tool_name")
        ask = PermissionRequest(
            id,
            call if isinstance(call, str) else id,
            name if isinstance(name, str) else "",
            request.get("input"),
            OPTIONS,
        )
        self.waiting[id] = ask
        decided: Decision | None = None if self._policy == "ask" else self._policy
        details = {key: request[key] for key in DETAILS if isinstance(request.get(key), str)}
        if parent is not None:
            details["parent"] = parent
        event = _event(ask, decided, "policy" if decided else None, details)
        return DriverOutput([event], [] if decided is None else self.answer(id, decided).sends)

    def answer(self, id: str, decided: Decision) -> DriverOutput:
        """The answer to send; nothing if the request is not pending."""
        ask = self.waiting.pop(id, None)
        if ask is None:
            return DriverOutput()
        if decided == "deny":
            self.refused.add(ask.call)
        return DriverOutput(sends=[decision(ask, decided)])

    def on_echo(self, record: dict[str, Any]) -> None:
        """The CLI repeats every answer that it received."""
        response = record.get("response")
        if not isinstance(response, dict):
            return
        ask = self.waiting.pop(str(response.get("request_id")), None)
        answer = response.get("response")
        if ask is not None and isinstance(answer, dict) and answer.get("behavior") == "deny":
            self.refused.add(ask.call)

    def on_withdrawn(self, record: dict[str, Any]) -> list[Entry]:
        """The CLI no longer waits, for example because the turn was interrupted."""
        ask = self.waiting.pop(str(record.get("request_id")), None)
        if ask is None:
            return []
        self._withdrawn.add(ask.call)
        return [_event(ask, "withdrawn", "agent", {})]

    def on_result(self, call: str) -> None:
        """The call has a result, so no answer is needed any more."""
        for id in [id for id, ask in self.waiting.items() if ask.call == call]:
            del self.waiting[id]

    def outcome_of(self, call: str) -> str:
        """The known outcome of a call that the agent left open."""
        if any(ask.call == call for ask in self.waiting.values()):
            return "It did not run: the permission request was not answered."
        if call in self.refused:
            return "It did not run: permission was denied."
        if call in self._withdrawn:
            return "It did not run: the permission request was withdrawn."
        return jsonl.UNKNOWN_OUTCOME


def _event(ask: PermissionRequest, answer: str | None, by: str | None, details: dict[str, Any]) -> NewEvent:
    body = {"call": ask.call, "ask": ask.id, "name": ask.name, "input": ask.input}
    return NewEvent("permission", {**body, "options": list(OPTIONS), "answer": answer, "by": by, **details})
