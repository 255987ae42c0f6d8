"""What an agent tells of a prompt in `session/update`, as events."""

from __future__ import annotations

from typing import Any

from holdfast.agents.acp import content
from holdfast.agents.acp.content import AcpOrigins
from holdfast.agents.acp.tool_calls import AcpToolCalls
from holdfast.model.event import NewEvent
from holdfast.transcripts.jsonl import notice_event as notice

_SPOKEN = {"agent_message_chunk": "assistant", "agent_thought_chunk": "thinking"}
# Nothing for a log: menus, modes and settings; the user's words we wrote ourselves.
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
# These come whether or not a prompt was taken.
_NO_ACCEPTANCE = _QUIET - {"user_message_chunk"} | {"usage_update"}


def shows_acceptance(update: dict[str, Any]) -> bool:
    """Whether an update can only come from an agent that took the prompt."""
    kind = update.get("sessionUpdate")
    return isinstance(kind, str) and kind not in _NO_ACCEPTANCE


class AcpUpdates:
    """Chunks joined, calls folded, usage kept."""

    def __init__(self, origins: AcpOrigins):
        self._origins = origins
        self.calls = AcpToolCalls(origins)
        self.usage: dict[str, Any] = {}
        self.answer: str | None = None  # the last text that was said
        self.spoke = False  # since the last word of a tool
        self.did_anything = False
        self._kind: str | None = None  # of the block that is being said
        self._message: str | None = None
        self._pieces: list[str] = []
        self._blocks: dict[str, int] = {}  # message: how many blocks of it are in the log
        self._said = 0
        self._plan: str | None = None

    def hear(self, update: dict[str, Any], stopped: bool = False) -> list[NewEvent]:
        """The events that an update completes; `stopped`: the agent was told to stop."""
        kind = update.get("sessionUpdate")
        if not isinstance(kind, str):
            return [*self.flush(), _unknown(update)]
        if kind in _SPOKEN:
            return self._piece(_SPOKEN[kind], update)
        if kind in ("tool_call", "tool_call_update"):
            self.spoke, self.did_anything = False, True
            events = self.calls.hear(update, stopped=stopped)
            return [*self.flush(), *events] if events or kind == "tool_call" else []
        if kind in ("plan", "plan_update"):
            return self._new_plan(update)
        if kind == "usage_update":
            self.usage.update(context_usage(update))
            return []
        return [] if kind in _QUIET else [*self.flush(), _unknown(update)]

    def flush(self) -> list[NewEvent]:
        """The block that was being said, whole."""
        kind, text = self._kind, content.mended("".join(self._pieces))
        message, self._kind, self._message, self._pieces = self._message, None, None, []
        if kind is None or not text:
            return []
        self.did_anything = True
        if kind == "assistant":
            self.answer, self.spoke = text, True
        if message is None:
            self._said += 1
            return [NewEvent(kind, {"text": text}, origin=self._origins.here("said", str(self._said)))]
        part = self._blocks.get(message, 0)
        self._blocks[message] = part + 1
        return [NewEvent(kind, {"text": text}, origin=self._origins.of("message", message, part))]

    def unfinished(self) -> tuple[str, str] | None:
        """The block that is being said, so far."""
        text = content.mended("".join(self._pieces))
        return (self._kind, text) if self._kind is not None and text else None

    def close(self) -> list[NewEvent]:
        """What was half said when the agent died.

        It is marked, and has no origin: the agent's store may have the whole block, which is another record.
        """
        return [NewEvent(event.kind, {**event.body, "cut": True}) for event in self.flush()]

    def _piece(self, kind: str, update: dict[str, Any]) -> list[NewEvent]:
        told = update.get("messageId")
        message = told if isinstance(told, str) and told else None
        events = self.flush() if (kind, message) != (self._kind, self._message) else []
        self._kind, self._message = kind, message
        self._pieces.append(content.block_text(update.get("content")))
        return events

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
        return [*self.flush(), notice("plan", text)]


def context_usage(update: dict[str, Any]) -> dict[str, Any]:
    """What a `usage_update` tells: how full the context is, and what the session has cost so far."""
    usage: dict[str, Any] = {}
    for key, name in (("used", "context_tokens"), ("size", "context_size")):
        if type(update.get(key)) is int:
            usage[name] = update[key]
    cost = update.get("cost")
    if isinstance(cost, dict) and cost.get("currency") == "USD" and type(cost.get("amount")) in (int, float):
        usage["cost_usd"] = cost["amount"]
    return usage


def prompt_usage(result: dict[str, Any]) -> dict[str, Any]:
    """What the answer to a prompt tells of tokens: in `usage`, or as Gemini does in `_meta.quota`."""
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
    return notice("unknown_record", f"an update that is not known here: {kind}", record=update)
