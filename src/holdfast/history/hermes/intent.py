"""Whether a sidecar is shorter than its backup because somebody wanted it so: values in, values out.

Length cannot tell a loss from a wish; the web UI notes the operation. A note that is not exactly what it
would write counts for nothing: then both copies are kept.
"""

from __future__ import annotations

import re
from typing import Any

from holdfast.history.hermes import values
from holdfast.history.hermes.sidecar import Sidecar

_GENERATION = re.compile(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}")  # uuid4().hex
SAVED_S = 60.0  # an agent's rows may be that much later than the file that tells of the same turn
_CLEARED: dict[str, Any] = {
    "truncation_watermark": 0.0,
    "truncation_boundary": 0.0,
    "active_stream_id": None,
    "pending_user_message": None,
    "pending_attachments": [],
    "pending_started_at": None,
    "pending_user_source": None,
}


def of(live: Sidecar, backup: Sidecar) -> str:
    """Why what the backup has more is gone: `clear`, `undo`, `compress`; empty if nobody meant it."""
    if not live.has_all or not backup.usable:
        return ""
    if _is_clear(live, backup):
        return "clear"
    mine, theirs = (side.head.get("intentional_shrink_generation") for side in (live, backup))
    if _is_generation(mine) and (theirs is None or (_is_generation(theirs) and theirs != mine)):
        return "undo"
    if backup.state == "whole" and _is_compressed(live) and _predates(live, backup):
        return "compress"
    return ""


def cut(live: Sidecar) -> tuple[float, float] | None:
    """The times between which the user took messages back; an agent's database may have them still.

    From the boundary that was kept to the first message after it, or without end.
    """
    if not live.has_all:
        return None
    boundary = values.seconds(live.head.get("truncation_boundary"))
    if boundary is None or (boundary and not live.messages):
        return None  # cut down to nothing would be 0.0: this one was lost since
    watermark = values.seconds(live.head.get("truncation_watermark"))
    later = [
        at
        for told in live.messages
        if isinstance(told, dict) and (at := values.seconds(told.get("timestamp"))) and at > boundary
    ]
    if watermark is not None and watermark > boundary:
        later.append(watermark)
    if not later and (saved := values.seconds(live.head.get("updated_at"))):
        later.append(max(boundary, saved) + SAVED_S)
    return boundary, min(later, default=float("inf"))


def compressed_until(live: Sidecar) -> float | None:
    """Up to when a compaction by hand may have taken messages away; None if there was none."""
    by_hand = values.word(live.head.get("compression_anchor_mode")).strip().lower() == "manual"
    if live.state != "whole" or not live.messages or not by_hand:
        return None
    told = (values.seconds(live.head.get(name)) for name in ("truncation_watermark", "updated_at"))
    return next((moment for moment in told if moment), None)


def kept_until(live: Sidecar, backup: Sidecar) -> float | None:
    """Up to when a torn sidecar's messages were kept by whoever took the rest away; None: nobody did.

    The head comes first in the file, so it is whole when the messages are not.
    """
    boundary = values.seconds(live.head.get("truncation_boundary"))
    if live.state != "torn" or live.has_all or boundary is None:
        return None
    for name in ("intentional_shrink_generation", "clear_generation"):
        mine, theirs = live.head.get(name), backup.head.get(name)
        if _is_generation(mine) and (theirs is None or (_is_generation(theirs) and theirs != mine)):
            return boundary
    return None


def _is_clear(live: Sidecar, backup: Sidecar) -> bool:
    generation = live.head.get("clear_generation")
    if not isinstance(generation, str) or not generation:
        return False
    if backup.head.get("clear_generation") == generation:
        return False
    if live.messages:
        wanted = {name: _CLEARED[name] for name in ("truncation_watermark", "truncation_boundary")}
    else:
        wanted = _CLEARED
    shape = all(name in live.head and _same(live.head[name], value) for name, value in wanted.items())
    return shape and (bool(live.messages) or not live.context)


def _same(found: Any, wanted: Any) -> bool:
    return found == wanted and not isinstance(found, bool)


def _is_generation(value: Any) -> bool:
    return isinstance(value, str) and _GENERATION.fullmatch(value) is not None


def _is_compressed(live: Sidecar) -> bool:
    head = live.head
    if values.word(head.get("compression_anchor_mode")).strip().lower() == "manual":
        return True
    if live.state != "whole" or len(live.context) >= len(live.messages):
        return False
    summed = values.text(head.get("compression_anchor_summary")).strip()
    anchored = bool(summed) and head.get("compression_anchor_message_key") is not None
    return anchored or head.get("truncation_watermark") is not None


def _predates(live: Sidecar, backup: Sidecar) -> bool:
    """Whether the backup is from before the compaction; a later one shows a loss."""
    for told in backup.context:
        said = told.get("content") if isinstance(told, dict) else None
        if isinstance(said, str) and said.lstrip()[:30].lower().startswith(
            ("[context compaction", "context compaction")
        ):
            return False
    return len(backup.context) > len(live.context)
