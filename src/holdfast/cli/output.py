"""Printing: JSON, tables that fit the terminal, times that people read."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

from holdfast import timestamps

# What a terminal would obey or hide, beyond what JSON escapes itself; it is found only inside strings.
_UNSAFE_IN_JSON = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


def json_line(value: Any) -> None:
    """One value as JSON on one line."""
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        line.encode()
    except UnicodeEncodeError:  # lone surrogates, which some locales would print as bytes that are no UTF-8
        line = json.dumps(value, separators=(",", ":"))
    json_text(line)


def json_text(line: str) -> None:
    """A line that is JSON already: what a terminal would obey is escaped, so that it stays the same JSON."""
    _print(_UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", line), sys.stdout)


def text(line: str) -> None:
    """Lines for a person, cleaned: agents, repositories and other tools have a say in what is in them."""
    _print(clean(line), sys.stdout)


def note(line: str) -> None:
    """The same on standard error."""
    _print(clean(line), sys.stderr)


def styled(line: str) -> None:
    """A line with our own colors or tabs in it, whose other parts are cleaned already (`plain`)."""
    _print(line, sys.stdout)


def clean(value: str) -> str:
    """Text of several lines without anything that a terminal would obey."""
    return "\n".join(plain(line) for line in value.split("\n"))


def plain(value: object) -> str:
    """Text for a terminal: one line, nothing that moves the cursor or reorders text."""
    shown = "" if value is None else str(value)
    return shown if shown.isprintable() else "".join(c if c.isprintable() else " " for c in shown)


def _print(line: str, stream: TextIO) -> None:
    """What the locale cannot encode is escaped."""
    try:
        print(line, file=stream, flush=stream is sys.stderr)
    except UnicodeEncodeError:
        encoding = stream.encoding or "utf-8"
        print(line.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def counted(count: int, noun: str) -> str:
    """`1 session`, `2 sessions`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns, the last one cut to what the terminal has."""
    cells = [list(head), *([plain(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    room = columns()
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        text(line if room is None or len(line) <= room else line[: room - 1] + "…")


def finished_line(task: str | None, session: str, status: str, reason: str | None) -> str:
    """What a start has found of a task that nobody watched, or of a session without its last one."""
    told = f"session {session}: {reason}"
    if task is not None:
        told = f"while nobody watched, task {task} of session {session} {status}: {reason}"
    return f"holdfast: {plain(told)}"


def ago(stamp: str) -> str:
    """How long ago that was."""
    seconds = max(0.0, time.time() - timestamps.parse(stamp))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit} ago"
    return f"{int(seconds)}s ago"


def columns() -> int | None:
    """How wide the terminal is; None where there is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return None  # not a terminal: nothing is cut


# --- A bar for long work, on a terminal only.

WIDTH = 30
EVERY_S = 0.1


def _columns() -> int:
    """A line that is wider would not be taken away whole."""
    return shutil.get_terminal_size().columns


class ProgressBar:
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
        line = f"{self._what} [{'█' * filled}{'·' * (WIDTH - filled)}] {part:4.0%} {plain(note)}"
        print(f"\r\x1b[K{line[: _columns() - 1]}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the bar away."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
