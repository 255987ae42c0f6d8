"""Which permission requests are pending or answered, and which calls did not run because of them?"""

from __future__ import annotations

from itertools import chain, count
from typing import Any

from holdfast.agents.acp.jsonrpc import reply
from holdfast.agents.acp.tool_calls import AcpToolCall
from holdfast.agents.driver import Decision, PermissionRequest, Policy

# Options are chosen by kind, never by id or order. `once` comes first: one answer is not a standing
# permission.
_KINDS: dict[str, tuple[str, ...]] = {
    "allow": ("allow_once", "allow_always"),
    "deny": ("reject_once", "reject_always"),
}
CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}

_DENIED = ("error", "Permission was denied, so the tool did not run.")
_STOPPED = ("interrupted", "The request was canceled before permission was given, so the tool did not run.")
_WAITED = ("interrupted", "Permission was never answered, so the tool did not run.")


def outcome(options: tuple[dict[str, Any], ...], decision: Decision) -> dict[str, Any]:
    """The result for this decision; `cancelled` if no option matches."""
    for kind in _KINDS[decision]:
        for option in options:
            if option.get("kind") == kind:
                return {"outcome": {"outcome": "selected", "optionId": option["id"]}}
    return CANCELLED


class AcpPermissions:
    """All permission requests of one process."""

    def __init__(self, policy: Policy):
        self.open: dict[str, PermissionRequest] = {}
        self._policy = policy
        self._requests: dict[str, Any] = {}  # request key -> the agent's request id, unchanged
        self._calls: dict[str, str] = {}  # request key -> call, for every request so far
        self._not_run: dict[str, tuple[str, str]] = {}  # call -> outcome and reason

    def add(
        self, request: int | str, params: dict[str, Any], call: AcpToolCall | None, stopped: bool
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Register a request; return the event body, and the response if the policy already decides it.

        `stopped`: the agent was told to stop, so every further request is canceled.
        """
        ask = PermissionRequest(
            id=self._name(str(request)),
            call=call.id if call is not None else "",
            name=call.label if call is not None else "tool",
            input=call.input if call is not None else {},
            options=_options(params),
        )
        self._requests[ask.id], self._calls[ask.id] = request, ask.call
        self.open[ask.id] = ask
        answer, by, sends = None, None, []
        if stopped:
            answer, by, sends = "cancelled", "cancel", self.cancel()
        elif self._policy != "ask":
            answer, by, sends = self._policy, "policy", self.answer(ask.id, self._policy)
        body = {"call": ask.call, "ask": ask.id, "name": ask.name, "input": ask.input}
        return {**body, "options": list(ask.options), "answer": answer, "by": by}, sends

    def _name(self, request: str) -> str:
        """An agent may reuse a request id after its answer; that is a new request."""
        names = chain([request], (f"{request}#{n}" for n in count(2)))
        return next(name for name in names if name not in self._requests)

    def answer(self, ask: str, decision: Decision) -> list[bytes]:
        """The line that answers; nothing if the request is not pending."""
        if decision == "deny" and ask in self._calls:
            self._not_run[self._calls[ask]] = _DENIED
        asked = self.open.pop(ask, None)
        return [] if asked is None else [reply(self._requests[ask], outcome(asked.options, decision))]

    def cancel(self) -> list[bytes]:
        """The lines that cancel every pending request."""
        lines = []
        for ask, asked in self.open.items():
            self._not_run[asked.call] = _STOPPED
            lines.append(reply(self._requests[ask], CANCELLED))
        self.open.clear()
        return lines

    def forget(self, call: str) -> None:
        """That call has ended: when a spool is replayed, its requests were answered long ago."""
        for ask in [ask for ask, asked in self.open.items() if asked.call == call]:
            del self.open[ask]

    def not_run(self) -> dict[str, tuple[str, str]]:
        """The calls that got no permission: outcome and reason."""
        return {**self._not_run, **{asked.call: _WAITED for asked in self.open.values()}}


def _options(params: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    options = params.get("options")
    if not isinstance(options, list):
        return ()
    return tuple(
        {"id": option["optionId"], "name": option.get("name"), "kind": option.get("kind")}
        for option in options
        if isinstance(option, dict) and isinstance(option.get("optionId"), str)
    )
