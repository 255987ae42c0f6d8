"""hermes-agent's own transcript of a session, a JSON file that it writes if it is told to.

It has no times, and nobody cuts it when messages are taken back. So it stands in for rows only where the
database has none and the sidecar tells nothing.
"""

from __future__ import annotations

from holdfast.history.hermes import sidecar, values
from holdfast.history.hermes.layout import Layout
from holdfast.history.hermes.message import Message, read
from holdfast.history.hermes.sidecar import Sidecar


class Transcript:
    """What one such file has, in the place of rows."""

    def __init__(self, side: Sidecar):
        self.path = side.path
        self._told = [one for one in side.messages if isinstance(one, dict)]

    def places(self, native_id: str) -> list[int]:
        """One for each message."""
        return list(range(len(self._told)))

    def message(self, place: int) -> Message | None:
        """One of them."""
        return read(self._told[place], "row", f"transcript-{place}")


def find(layout: Layout, native_id: str, live: Sidecar) -> Transcript | None:
    """The transcript that may stand in for a session's rows, if there is one."""
    if not may_stand_in(live):
        return None
    sides = [sidecar.load(path) for path in layout.transcripts(native_id)]
    whole = [side for side in sides if side.state == "whole" and _is_of(side, native_id)]
    return Transcript(whole[0]) if len(whole) == 1 and whole[0].messages else None


def may_stand_in(live: Sidecar) -> bool:
    """Whether a sidecar lost what it had, and does not say that somebody took it away."""
    if live.state == "unreadable" or (live.state == "whole" and live.messages):
        return False
    marks = ("truncation_boundary", "truncation_watermark", "clear_generation")
    return all(live.head.get(name) is None for name in marks)


def _is_of(side: Sidecar, native_id: str) -> bool:
    return values.word(side.head.get("session_id")) in ("", native_id)
