"""How do many updates of one tool call become one start and one end?"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.agents.acp import content
from holdfast.agents.acp.content import AcpOrigins
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import decode

_OUTCOMES = {"completed": "ok", "failed": "error"}
UNKNOWN = ("interrupted", "The agent ended without reporting a result; the tool may have run.")
MAX_PRINTED = 4 * 1024 * 1024  # characters per call
_PRINTED_MORE = "\n[output truncated]"
_KEPT = ("kind", "title", "content", "rawInput", "rawOutput")


class AcpToolCall(msgspec.Struct):
    """One tool call, as far as it is known."""

    id: str
    name: str = ""
    fields: dict[str, Any] = {}  # the last value of each field
    streamed: dict[str, Any] | None = None  # the input, if it arrived as content
    diffs: list[dict[str, Any]] = []  # the last ones shown, possibly only with the permission request
    printed: list[str] = []  # by the agent's own terminal
    printed_size: int = 0
    begun: bool = False
    ended: bool = False

    @property
    def label(self) -> str:
        """The tool's name; if the agent sends none, the kind of tool."""
        kind = self.fields.get("kind")
        return self.name or (kind if isinstance(kind, str) and kind else "tool")

    @property
    def input(self) -> Any:
        """Its input; if the agent never sends it (Gemini), what it shows instead."""
        if self.fields.get("rawInput"):
            return self.fields["rawInput"]
        title = self.fields.get("title")
        return self.streamed or ({"title": title} if isinstance(title, str) and title else {})

    def take(self, update: dict[str, Any]) -> None:
        """Merge an update."""
        before = self.fields.get("rawInput")
        self.fields.update({key: update[key] for key in _KEPT if update.get(key) is not None})
        self._print(content.terminal_output(update))
        self.diffs = content.diffs(update.get("content")) or self.diffs
        raw = self.fields.get("rawInput")
        if isinstance(before, dict) and isinstance(raw, dict):
            # OpenCode's permission requests hold less (no cwd) than its updates before or after, in either
            # order.
            self.fields["rawInput"] = {**before, **raw}
        if not raw and update.get("status") == "in_progress":
            # Kimi asks for permission before it sends the input in any other way.
            self.streamed = _object(content.shown_text(update.get("content"))) or self.streamed

    def _print(self, text: str) -> None:
        """Keep terminal output, up to a limit."""
        room = MAX_PRINTED - self.printed_size
        if text and room > 0:
            self.printed.append(text if len(text) <= room else text[:room] + _PRINTED_MORE)
            self.printed_size += len(text)

    def release(self) -> None:
        """Drop what only an open call needs; a long task has thousands of calls."""
        self.name, self.fields, self.streamed, self.diffs, self.printed = self.label, {}, None, [], []


class AcpToolCalls:
    """All calls of one process, by the agent's id."""

    def __init__(self, origins: AcpOrigins):
        self.open: dict[str, str] = {}  # announced and not ended: id -> name
        self._origins = origins
        self._calls: dict[str, AcpToolCall] = {}
        self._ids: set[str] = set()

    def get(self, agent_id: Any) -> AcpToolCall | None:
        """The call with that id, as the agent writes it."""
        return self._calls.get(agent_id) if isinstance(agent_id, str) else None

    def on_update(self, update: dict[str, Any], asked: bool = False, stopped: bool = False) -> list[NewEvent]:
        """The events that an update causes.

        `asked`: it comes with a permission request. `stopped`: the agent was told to stop; Gemini and
        OpenCode then report an aborted command as `completed`.
        """
        agent_id = update.get("toolCallId")
        if not isinstance(agent_id, str):
            return []
        call = self._calls.get(agent_id)
        first = call is None
        if call is None:
            call = self._calls[agent_id] = AcpToolCall(self._free_id(agent_id))
        if call.ended:
            return []
        call.take(update)
        if not call.begun and (name := content.tool_name(update, first)) is not None:
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
        """An end for each open call; `why` maps an id to its known outcome and text."""
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
        call.release()
        # An end that the agent did not report has no origin: its store may hold another record of it.
        return NewEvent("tool_summary", body, origin=self._origins.of("result", call.id) if known else None)

    def _free_id(self, agent_id: str) -> str:
        short = content.call_id(agent_id)
        free = agent_id if short in self._ids else short
        self._ids.add(free)
        return free


def _is_known(call: AcpToolCall, update: dict[str, Any], first: bool) -> bool:
    """Whether the input is complete.

    OpenCode announces a call as pending with only its cwd; Kimi streams the input as content of an
    in-progress update; Gemini starts in progress and never sends it; the Claude adapters send it in an update
    without a status.
    """
    raw = call.fields.get("rawInput")
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
    """The text of a result: raw text, else the shown content, else text inside the raw output."""
    raw = update.get("rawOutput")
    if isinstance(raw, str) and raw:
        return raw
    if text := content.shown_text(update.get("content")) or content.join_surrogates("".join(call.printed)):
        return text
    if raw is None:
        raw = call.fields.get("rawOutput")
    if raw is None and update.get("content") is None:
        return content.shown_text(call.fields.get("content"))
    return content.raw_text(raw)
