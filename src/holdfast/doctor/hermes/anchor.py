"""Where a compaction is shown: the web UI keeps a message's number among those that it shows."""

from __future__ import annotations

from typing import Any

from holdfast.history.hermes.message import content_text

FIELD = "compression_anchor_visible_idx"
_MARKERS = (
    "[context compaction",
    "[your active task list was preserved across context compression]",
    "[session arc summary",
)


def moved(told: Any, old: list[Any], new: list[Any], now_at: dict[int, int]) -> Any:
    """The number after messages have moved; `now_at`: places in the old list that are places in the new."""
    if type(told) is not int or told < 0:
        return told
    shown = [place for place, message in enumerate(old) if _is_shown(message)]
    place = now_at.get(shown[told]) if told < len(shown) else None
    return told if place is None else sum(map(_is_shown, new[:place]))


def _is_shown(message: Any) -> bool:
    """Whether the web UI counts a message."""
    if not isinstance(message, dict) or message.get("role") in (None, "", "tool"):
        return False
    said = content_text(message.get("content")).strip()
    if said.lower().startswith(_MARKERS) or (
        message.get("_compressed_summary") and said.lower().startswith("context compaction")
    ):
        return False
    return bool(said or any(message.get(name) for name in ("attachments", "tool_calls", "reasoning")))
