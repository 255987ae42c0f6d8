"""Which events do an agent's `session/update` messages contain?"""

from __future__ import annotations

from typing import Any

from holdfast.agents.acp import content
from holdfast.agents.acp.content import AcpOrigins
from holdfast.agents.acp.tool_calls import AcpToolCalls
from holdfast.agents.driver import MAX_BLOCK
from holdfast.model.event import NewEvent, Origin
from holdfast.transcripts.jsonl import notice_event

_SPOKEN = {"agent_message_chunk": "assistant", "agent_thought_chunk": "thinking"}
# Not logged: menus, modes and settings, and the user's text, which we wrote ourselves.
_QUIET = frozenset(
    {
        "user_message_chunk",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "plan_removed",
    }
)
_MARKS = {"completed": "[x]", "in_progress": "[>]"}
# These arrive whether or not a prompt was accepted.
_NO_ACCEPTANCE = _QUIET - {"user_message_chunk"} | {"usage_update"}


def shows_acceptance(update: dict[str, Any]) -> bool:
    """Whether an update proves that the agent accepted the prompt."""
    kind = update.get("sessionUpdate")
    return isinstance(kind, str) and kind not in _NO_ACCEPTANCE


class AcpUpdates:
    """Joins chunks, merges tool calls, keeps the usage."""

    def __init__(self, origins: AcpOrigins):
        self._origins = origins
        self.calls = AcpToolCalls(origins)
        self.usage: dict[str, Any] = {}
        self.answer: str | None = None  # the last complete text
        self.has_text = False  # text arrived after the last tool update
        self.did_anything = False
        self._kind: str | None = None  # of the current block
        self._message: str | None = None
        self._pieces: list[str] = []
        self._size = 0  # characters in them
        self._part = 0  # parts of this block that are already in the log
        self._blocks: dict[str, int] = {}  # message -> how many of its blocks are in the log
        self._block_count = 0
        self._plan: str | None = None

    def on_update(self, update: dict[str, Any], stopped: bool = False) -> list[NewEvent]:
        """The events that an update completes; `stopped`: the agent was told to stop."""
        kind = update.get("sessionUpdate")
        if not isinstance(kind, str):
            return [*self.flush(), _unknown(update)]
        if kind in _SPOKEN:
            return self._piece(_SPOKEN[kind], update)
        if kind in ("tool_call", "tool_call_update"):
            self.has_text, self.did_anything = False, True
            events = self.calls.on_update(update, stopped=stopped)
            return [*self.flush(), *events] if events or kind == "tool_call" else []
        if kind in ("plan", "plan_update"):
            return self._new_plan(update)
        if kind == "usage_update":
            self.usage.update(context_usage(update))
            return []
        return [] if kind in _QUIET else [*self.flush(), _unknown(update)]

    def flush(self) -> list[NewEvent]:
        """End the current block and return it, or its last part."""
        text = content.join_surrogates("".join(self._pieces))
        events = [self._said_event(text, more=False)] if self._kind is not None and text else []
        self._kind, self._message, self._pieces, self._size, self._part = None, None, [], 0, 0
        return events

    def _full_parts(self) -> list[NewEvent]:
        """The full parts of a block that is too long for one event; the rest stays here."""
        if self._size <= MAX_BLOCK:
            return []
        text, events = content.join_surrogates("".join(self._pieces)), []
        while len(text) > MAX_BLOCK:
            # Do not split a surrogate pair.
            cut = MAX_BLOCK - ("\ud800" <= text[MAX_BLOCK - 1] <= "\udbff")
            self._part += 1
            events.append(self._said_event(text[:cut], more=True))
            text = text[cut:]
        self._pieces, self._size = [text], len(text)
        return events

    def _said_event(self, text: str, more: bool) -> NewEvent:
        assert self._kind is not None
        self.did_anything = True
        body: dict[str, Any] = {"text": text}
        if more:
            body.update(part=self._part, more=True)
        elif self._part:
            body["part"] = self._part + 1
        if self._kind == "assistant":
            self.has_text = True
            if body.get("part", 1) == 1:
                self.answer = text
        return NewEvent(self._kind, body, origin=self._next_origin())

    def _next_origin(self) -> Origin | None:
        if self._message is None:
            self._block_count += 1
            return self._origins.here("said", str(self._block_count))
        number = self._blocks.get(self._message, 0)
        self._blocks[self._message] = number + 1
        return self._origins.of("message", self._message, number)

    def partial_text(self) -> tuple[str, str] | None:
        """The current block so far."""
        text = content.join_surrogates("".join(self._pieces))
        return (self._kind, text) if self._kind is not None and text else None

    def close(self) -> list[NewEvent]:
        """The partial block of an agent that died.

        It is marked and has no origin: the agent's store may hold the whole block as another record.
        """
        return [NewEvent(event.kind, {**event.body, "cut": True}) for event in self.flush()]

    def _piece(self, kind: str, update: dict[str, Any]) -> list[NewEvent]:
        message_id = update.get("messageId")
        message = message_id if isinstance(message_id, str) and message_id else None
        events = self.flush() if (kind, message) != (self._kind, self._message) else []
        self._kind, self._message = kind, message
        piece = content.block_text(update.get("content"))
        self._pieces.append(piece)
        self._size += len(piece)
        return [*events, *self._full_parts()]

    def _new_plan(self, update: dict[str, Any]) -> list[NewEvent]:
        inner = update.get("plan")
        source = inner if isinstance(inner, dict) else update
        listed = source.get("entries")
        entries = [e for e in listed if isinstance(e, dict)] if isinstance(listed, list) else []
        lines = [f"{_MARKS.get(str(e.get('status')), '[ ]')} {e.get('content')}" for e in entries]
        text = "\n".join(lines) or content.block_text(source.get("content"))
        if not text or text == self._plan:
            return []
        self._plan = text
        return [*self.flush(), notice_event("plan", text)]


def context_usage(update: dict[str, Any]) -> dict[str, Any]:
    """What a `usage_update` reports: context size and session cost so far."""
    usage: dict[str, Any] = {}
    for key, name in (("used", "context_tokens"), ("size", "context_size")):
        if type(update.get(key)) is int:
            usage[name] = update[key]
    cost = update.get("cost")
    if isinstance(cost, dict) and cost.get("currency") == "USD" and type(cost.get("amount")) in (int, float):
        usage["cost_usd"] = cost["amount"]
    return usage


def prompt_usage(result: dict[str, Any]) -> dict[str, Any]:
    """The token counts in a prompt's response: in `usage`, or for Gemini in `_meta.quota`."""
    meta = result.get("_meta")
    quota = meta.get("quota") if isinstance(meta, dict) else None
    counted = quota.get("token_count") if isinstance(quota, dict) else None
    usage: dict[str, Any] = {}
    for source, names in (
        (counted, {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}),
        (
            result.get("usage"),
            {
                "inputTokens": "input_tokens",
                "outputTokens": "output_tokens",
                "cachedReadTokens": "cached_tokens",
                "thoughtTokens": "thought_tokens",
            },
        ),
    ):
        if isinstance(source, dict):
            usage.update({name: source[key] for key, name in names.items() if type(source.get(key)) is int})
    return usage


def _unknown(update: dict[str, Any]) -> NewEvent:
    kind = update.get("sessionUpdate")
    return notice_event("unknown_record", f"unknown update: {kind}", record=update)
