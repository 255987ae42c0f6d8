"""Tool calls: many updates of one call folded into one beginning and one end."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.agents.acp import content
from holdfast.agents.acp import content as naming
from holdfast.agents.acp.content import AcpOrigins
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import decode

_OUTCOMES = {"completed": "ok", "failed": "error"}
UNKNOWN = ("interrupted", "The agent ended without telling how this call ended; it may have run.")
_KEPT = ("kind", "title", "content", "rawInput", "rawOutput")


class AcpToolCall(msgspec.Struct):
    """One tool call, as far as it has been told."""

    id: str
    name: str = ""
    told: dict[str, Any] = {}  # the last of each field
    streamed: dict[str, Any] | None = None  # the input, where it came as content
    diffs: list[dict[str, Any]] = []  # the last that were shown, maybe only with the permission request
    printed: list[str] = []  # by a terminal of the agent's own
    begun: bool = False
    ended: bool = False

    @property
    def label(self) -> str:
        """The tool's name; where the agent tells none, what kind of tool it is."""
        kind = self.told.get("kind")
        return self.name or (kind if isinstance(kind, str) and kind else "tool")

    @property
    def input(self) -> Any:
        """Its input; where the agent never tells it (Gemini), what it shows of it instead."""
        if self.told.get("rawInput"):
            return self.told["rawInput"]
        title = self.told.get("title")
        return self.streamed or ({"title": title} if isinstance(title, str) and title else {})

    def take(self, update: dict[str, Any]) -> None:
        """Keep what an update tells."""
        before = self.told.get("rawInput")
        self.told.update({key: update[key] for key in _KEPT if update.get(key) is not None})
        self.printed.append(content.printed(update))
        self.diffs = content.diffs(update.get("content")) or self.diffs
        raw = self.told.get("rawInput")
        if isinstance(before, dict) and isinstance(raw, dict):
            # OpenCode asks with less (no cwd) than it tells before or after, in either order.
            self.told["rawInput"] = {**before, **raw}
        if not raw and update.get("status") == "in_progress":
            # Kimi asks for a permission before it gives the input in any other way.
            self.streamed = _object(content.shown(update.get("content"))) or self.streamed


class AcpToolCalls:
    """All calls of one process, by the id the agent uses."""

    def __init__(self, origins: AcpOrigins):
        self.open: dict[str, str] = {}  # those that were announced and did not end: id and name
        self._origins = origins
        self._calls: dict[str, AcpToolCall] = {}
        self._ids: set[str] = set()

    def get(self, told: Any) -> AcpToolCall | None:
        """The call of that id, as the agent says it."""
        return self._calls.get(told) if isinstance(told, str) else None

    def hear(self, update: dict[str, Any], asked: bool = False, stopped: bool = False) -> list[NewEvent]:
        """What follows from an update of a call.

        `asked`: it comes with a permission request. `stopped`: the agent was told to stop; Gemini and
        OpenCode then say `completed` of a command that they broke off.
        """
        told = update.get("toolCallId")
        if not isinstance(told, str):
            return []
        call = self._calls.get(told)
        first = call is None
        if call is None:
            call = self._calls[told] = AcpToolCall(self._free_id(told))
        if call.ended:
            return []
        call.take(update)
        if not call.begun and (name := naming.tool_name(update, first)) is not None:
            call.name = name
        self.open[call.id] = call.label
        status = update.get("status")
        outcome = _OUTCOMES.get(status) if isinstance(status, str) else None
        events = []
        if not call.begun and (outcome is not None or asked or _is_known(call, update, first)):
            events.append(self._begin(call))
        if outcome is not None:
            events.append(self._end(call, "interrupted" if stopped else outcome, _output(call, update)))
        return events

    def close(self, why: dict[str, tuple[str, str]]) -> list[NewEvent]:
        """An end for each call that has none; `why` says for some ids what is known: outcome and text."""
        events = []
        for call in self._calls.values():
            if call.ended:
                continue
            if not call.begun:
                events.append(self._begin(call))
            events.append(self._end(call, *why.get(call.id, UNKNOWN), known=False))
        return events

    def _begin(self, call: AcpToolCall) -> NewEvent:
        call.begun = True
        body = {"call": call.id, "name": call.label, "input": call.input}
        return NewEvent("tool_progress", body, origin=self._origins.of("call", call.id))

    def _end(self, call: AcpToolCall, outcome: str, output: str, known: bool = True) -> NewEvent:
        call.ended = True
        self.open.pop(call.id, None)
        body: dict[str, Any] = {"call": call.id, "name": call.label, "outcome": outcome, "output": output}
        if call.diffs:
            body["diff"] = call.diffs
        # An end that the agent did not tell has no origin: what its store may tell is another record.
        return NewEvent("tool_summary", body, origin=self._origins.of("result", call.id) if known else None)

    def _free_id(self, told: str) -> str:
        short = naming.call_id(told)
        free = told if short in self._ids else short
        self._ids.add(free)
        return free


def _is_known(call: AcpToolCall, update: dict[str, Any], first: bool) -> bool:
    """Whether its input is all there.

    OpenCode announces a call as pending with nothing but its cwd; Kimi streams the input as content of an
    update in progress; Gemini begins in progress and never tells it; the Claude adapters give it in an
    update without a status.
    """
    raw = call.told.get("rawInput")
    has_input = bool(raw) and not (isinstance(raw, dict) and raw.keys() == {"cwd"})
    status = update.get("status")
    if status == "in_progress":
        return has_input or first or not update.get("content")
    return has_input and not first


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _output(call: AcpToolCall, update: dict[str, Any]) -> str:
    """The text of a result: the raw one if that is text, else what is shown, else what the raw one holds."""
    raw = update.get("rawOutput")
    if isinstance(raw, str) and raw:
        return raw
    if said := content.shown(update.get("content")) or content.mended("".join(call.printed)):
        return said
    if raw is None:
        raw = call.told.get("rawOutput")
    if raw is None and update.get("content") is None:
        return content.shown(call.told.get("content"))
    return content.raw_text(raw)
