"""The permissions that Claude Code asks for."""

from __future__ import annotations

import uuid
from typing import Any

from holdfast.agents.driver import Decision, DriverOutput, Entry, PermissionRequest, Policy
from holdfast.model import json_codec
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl as lines

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


def decision(ask: PermissionRequest, decided: Decision) -> bytes:
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
    return json_codec.encode(message) + b"\n"


# --- The permissions that Claude Code asks for.

OPTIONS = ({"id": "allow", "name": "Allow"}, {"id": "deny", "name": "Deny"})
TOLD = ("description", "blocked_path", "decision_reason")  # what else an ask may say


class ClaudePermissions:
    """What waits for an answer, and what became of the others."""

    def __init__(self, policy: Policy):
        """By that policy."""
        self.waiting: dict[str, PermissionRequest] = {}
        self.refused: set[str] = set()  # calls
        self._policy: Policy = policy
        self._withdrawn: set[str] = set()  # calls

    def asked(self, record: dict[str, Any], parent: str | None) -> DriverOutput:
        """A `can_use_tool` request: logged, and answered at once unless a person is to be asked."""
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
        told = {key: request[key] for key in TOLD if isinstance(request.get(key), str)}
        if parent is not None:
            told["parent"] = parent
        event = _event(ask, decided, "policy" if decided else None, told)
        return DriverOutput([event], [] if decided is None else self.answer(id, decided).sends)

    def answer(self, id: str, decided: Decision) -> DriverOutput:
        """What says an answer; nothing if that ask does not wait."""
        ask = self.waiting.pop(id, None)
        if ask is None:
            return DriverOutput()
        if decided == "deny":
            self.refused.add(ask.call)
        return DriverOutput(sends=[decision(ask, decided)])

    def echoed(self, record: dict[str, Any]) -> None:
        """The CLI repeats every answer that it took."""
        response = record.get("response")
        if not isinstance(response, dict):
            return
        ask = self.waiting.pop(str(response.get("request_id")), None)
        said = response.get("response")
        if ask is not None and isinstance(said, dict) and said.get("behavior") == "deny":
            self.refused.add(ask.call)

    def withdrawn(self, record: dict[str, Any]) -> list[Entry]:
        """It does not wait any more, as when the turn was interrupted."""
        ask = self.waiting.pop(str(record.get("request_id")), None)
        if ask is None:
            return []
        self._withdrawn.add(ask.call)
        return [_event(ask, "withdrawn", "agent", {})]

    def settled(self, call: str) -> None:
        """The call has its result: nobody waits for an answer about it."""
        for id in [id for id, ask in self.waiting.items() if ask.call == call]:
            del self.waiting[id]

    def left(self, call: str) -> str:
        """What is known of a call that the agent left open."""
        if any(ask.call == call for ask in self.waiting.values()):
            return "It never ran: its permission was asked for and not answered."
        if call in self.refused:
            return "It never ran: its permission was refused."
        if call in self._withdrawn:
            return "It never ran: its permission was asked for and not waited for."
        return lines.UNKNOWN_OUTCOME


def _event(ask: PermissionRequest, answer: str | None, by: str | None, told: dict[str, Any]) -> NewEvent:
    body = {"call": ask.call, "ask": ask.id, "name": ask.name, "input": ask.input}
    return NewEvent("permission", {**body, "options": list(OPTIONS), "answer": answer, "by": by, **told})
