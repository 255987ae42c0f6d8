"""hermes-agent's own transcript of a session, a JSON file that it writes only if configured to.

It has no times, and an undo does not remove messages from it. So it replaces the rows only where the
database has none and the sidecar lost its messages.
"""

from __future__ import annotations

from holdfast.peers.hermes import sidecar, values
from holdfast.peers.hermes.layout import HermesLayout
from holdfast.peers.hermes.messages import HermesMessage, read_message
from holdfast.peers.hermes.sidecar import Sidecar


class HermesTranscript:
    """The messages of one such file, used in place of rows."""

    def __init__(self, side: Sidecar):
        self.path = side.path
        self._messages = [raw for raw in side.messages if isinstance(raw, dict)]

    def row_ids(self, native_id: str) -> list[int]:
        """One number for each message."""
        return list(range(len(self._messages)))

    def message(self, row: int) -> HermesMessage | None:
        """One message."""
        return read_message(self._messages[row], "row", f"transcript-{row}")


def find(layout: HermesLayout, native_id: str, live: Sidecar) -> HermesTranscript | None:
    """The transcript that may replace a session's rows, if there is one."""
    if not may_replace_rows(live):
        return None
    sides = [sidecar.load(path) for path in layout.transcripts(native_id)]
    whole = [side for side in sides if side.state == "whole" and _is_of(side, native_id)]
    return HermesTranscript(whole[0]) if len(whole) == 1 and whole[0].messages else None


def may_replace_rows(live: Sidecar) -> bool:
    """Whether a sidecar lost its messages, with no sign that somebody removed them on purpose."""
    if live.state == "unreadable" or (live.state == "whole" and live.messages):
        return False
    marks = ("truncation_boundary", "truncation_watermark", "clear_generation")
    return all(live.head.get(name) is None for name in marks)


def _is_of(side: Sidecar, native_id: str) -> bool:
    return values.identifier(side.head.get("session_id")) in ("", native_id)
