"""The block that Claude Code is saying, from the model's own pieces; its whole record takes their place."""

from __future__ import annotations

from typing import Any

from holdfast.drive import line as lines
from holdfast.drive.acp.content import mended
from holdfast.model.event import NewEvent

# By the type of a piece or of a block: its field, and the kind of event that it is a part of.
_SPOKEN = {
    "text": ("text", "assistant"),
    "text_delta": ("text", "assistant"),
    "thinking": ("thinking", "thinking"),
    "thinking_delta": ("thinking", "thinking"),
}
# What comes before them is either whole or was given up: the CLI asks the model again when its API fails.
_BEGINS = frozenset({"message_start", "content_block_start"})


class Draft:
    """One block of the agent itself in the making; what its subagents say comes whole."""

    def __init__(self) -> None:
        """None yet."""
        self._kind = ""
        self._pieces: list[str] = []

    def hear(self, record: dict[str, Any]) -> None:
        """Take a `stream_event`."""
        event = record.get("event")
        if record.get("parent_tool_use_id") is not None or not isinstance(event, dict):
            return
        if lines.word(event, "type") in _BEGINS:
            self.drop()
        self._add(event.get("content_block"))
        self._add(event.get("delta"))

    def whole(self, record: dict[str, Any]) -> None:
        """Take an `assistant` record: a block is whole."""
        if record.get("parent_tool_use_id") is None:
            self.drop()

    def drop(self) -> None:
        """Nothing is being said."""
        self._kind, self._pieces = "", []

    def unfinished(self) -> tuple[str, str] | None:
        """Its kind and its text so far."""
        text = mended("".join(self._pieces))
        return (self._kind, text) if text else None

    def close(self) -> list[NewEvent]:
        """What was half said when the agent died; its transcript has nothing of it, so it has no origin."""
        told = self.unfinished()
        self.drop()
        return [] if told is None else [NewEvent(told[0], {"text": told[1], "cut": True})]

    def _add(self, piece: Any) -> None:
        if not isinstance(piece, dict):
            return
        field, kind = _SPOKEN.get(lines.word(piece, "type"), ("", ""))
        said = lines.word(piece, field)
        if said and kind != self._kind:
            self._kind, self._pieces = kind, []
        if said:
            self._pieces.append(said)
