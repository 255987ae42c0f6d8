"""Words of people and agents, as a header can hold them."""

from __future__ import annotations


def header(text: str, limit: int) -> str:
    """The beginning of a text on one line, without what not every store can hold."""
    line = " ".join(text[: 8 * limit].replace("\0", " ").split())
    shown = line if len(line) <= limit else line[: limit - 1] + "…"
    return shown.encode(errors="replace").decode()
