"""Whether somebody removed messages from a session on purpose: cleared, undone or compacted it."""

from __future__ import annotations

import re
from typing import Any

from holdfast.peers.hermes import values
from holdfast.peers.hermes.sidecar import Sidecar

SAVE_DELAY_S = 60.0  # the agent's rows may be this much later than the file that records the same turn

_GENERATION = re.compile(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}")  # uuid4().hex
_CLEARED: dict[str, Any] = {
    "truncation_watermark": 0.0,
    "truncation_boundary": 0.0,
    "active_stream_id": None,
    "pending_user_message": None,
    "pending_attachments": [],
    "pending_started_at": None,
    "pending_user_source": None,
}


def shrink_reason(live: Sidecar, backup: Sidecar) -> str:
    """Why the sidecar lacks what the backup has: `clear`, `undo`, `compress`; empty if not on purpose."""
    if not live.has_all or not backup.usable:
        return ""
    if _is_clear(live, backup):
        return "clear"
    if _is_newer_generation(live, backup, "intentional_shrink_generation"):
        return "undo"
    if backup.state == "whole" and _is_compressed(live) and _predates(live, backup):
        return "compress"
    return ""


def truncated_span(live: Sidecar) -> tuple[float, float] | None:
    """The times between which the user undid messages; the agent's database may still have them.

    It starts at the boundary that was kept and ends at the first message after it, if there is one.
    """
    if not live.has_all:
        return None
    boundary = values.seconds(live.head.get("truncation_boundary"))
    if boundary is None or (boundary and not live.messages):
        return None  # an undo of everything writes 0.0: this sidecar lost its messages later
    watermark = values.seconds(live.head.get("truncation_watermark"))
    later = [
        at
        for raw in live.messages
        if isinstance(raw, dict) and (at := values.seconds(raw.get("timestamp"))) and at > boundary
    ]
    if watermark is not None and watermark > boundary:
        later.append(watermark)
    if not later and (saved := values.seconds(live.head.get("updated_at"))):
        later.append(max(boundary, saved) + SAVE_DELAY_S)
    return boundary, min(later, default=float("inf"))


def compressed_until(live: Sidecar) -> float | None:
    """The time up to which a manual compaction may have removed messages; None if there was none."""
    manual = values.identifier(live.head.get("compression_anchor_mode")).strip().lower() == "manual"
    if live.state != "whole" or not live.messages or not manual:
        return None
    times = (values.seconds(live.head.get(name)) for name in ("truncation_watermark", "updated_at"))
    return next((moment for moment in times if moment), None)


def kept_until(live: Sidecar, backup: Sidecar) -> float | None:
    """The time up to which a torn sidecar kept its messages when the rest was removed; None: nothing was.

    The head comes first in the file, so it is whole even when the messages are not.
    """
    boundary = values.seconds(live.head.get("truncation_boundary"))
    if live.state != "torn" or live.has_all or boundary is None:
        return None
    for name in ("intentional_shrink_generation", "clear_generation"):
        if _is_newer_generation(live, backup, name):
            return boundary
    return None


def _is_newer_generation(live: Sidecar, backup: Sidecar, name: str) -> bool:
    """Whether the sidecar has a generation id that the backup does not have yet."""
    mine, theirs = live.head.get(name), backup.head.get(name)
    return _is_generation(mine) and (theirs is None or (_is_generation(theirs) and theirs != mine))


def _is_clear(live: Sidecar, backup: Sidecar) -> bool:
    generation = live.head.get("clear_generation")
    if not isinstance(generation, str) or not generation:
        return False
    if backup.head.get("clear_generation") == generation:
        return False
    if live.messages:
        expected = {name: _CLEARED[name] for name in ("truncation_watermark", "truncation_boundary")}
    else:
        expected = _CLEARED
    matches = all(name in live.head and _equal(live.head[name], value) for name, value in expected.items())
    return matches and (bool(live.messages) or not live.context)


def _equal(value: Any, expected: Any) -> bool:
    return value == expected and not isinstance(value, bool)


def _is_generation(value: Any) -> bool:
    return isinstance(value, str) and _GENERATION.fullmatch(value) is not None


def _is_compressed(live: Sidecar) -> bool:
    head = live.head
    if values.identifier(head.get("compression_anchor_mode")).strip().lower() == "manual":
        return True
    if live.state != "whole" or len(live.context) >= len(live.messages):
        return False
    summary = values.text(head.get("compression_anchor_summary")).strip()
    anchored = bool(summary) and head.get("compression_anchor_message_key") is not None
    return anchored or head.get("truncation_watermark") is not None


def _predates(live: Sidecar, backup: Sidecar) -> bool:
    """Whether the backup is from before the compaction; a later backup indicates a loss."""
    for raw in backup.context:
        content = raw.get("content") if isinstance(raw, dict) else None
        if isinstance(content, str) and content.lstrip()[:30].lower().startswith(
            ("[context compaction", "context compaction")
        ):
            return False
    return len(backup.context) > len(live.context)
