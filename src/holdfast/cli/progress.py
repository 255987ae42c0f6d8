"""A bar for long work, on a terminal only."""

from __future__ import annotations

import shutil
import sys
import time

WIDTH = 30
EVERY_S = 0.1


def _columns() -> int:
    """A line that is wider would not be taken away whole."""
    return shutil.get_terminal_size().columns


class Bar:
    """How far something has come, on standard error; silent where that is no terminal."""

    def __init__(self, what: str, total: float):
        self._what = what
        self._total = total
        self._shown = sys.stderr.isatty()
        self._told = 0.0

    def at(self, done: float, note: str = "", *, begins: bool = False) -> None:
        """Show that so much is done; not every time, but always when something new begins."""
        now = time.monotonic()
        if not self._shown or (now - self._told < EVERY_S and not begins):
            return
        self._told = now
        part = min(1.0, done / self._total) if self._total else 1.0
        filled = round(part * WIDTH)
        line = f"{self._what} [{'█' * filled}{'·' * (WIDTH - filled)}] {part:4.0%} {note}"
        print(f"\r\x1b[K{line[: _columns() - 1]}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the bar away."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
