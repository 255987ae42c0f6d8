"""Printing: JSON, tables that fit the terminal, times that people read."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from holdfast import clock


def json_line(value: Any) -> None:
    """One value as JSON on one line."""
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        line.encode()
    except UnicodeEncodeError:  # lone surrogates, which some locales would print as bytes that are no UTF-8
        line = json.dumps(value, separators=(",", ":"))
    text(line)


def text(line: str) -> None:
    """A line, whatever is in it: what cannot be encoded is escaped."""
    try:
        print(line)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "utf-8"
        print(line.encode(encoding, "backslashreplace").decode(encoding))


def plain(value: object) -> str:
    """Text for a terminal: one line, nothing that moves the cursor."""
    shown = "" if value is None else str(value)
    return "".join(c if c.isprintable() else " " for c in shown)


def many(count: int, noun: str) -> str:
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


def settled(task: str | None, session: str, status: str, reason: str | None) -> str:
    """What a start has found of a task that nobody watched, or of a session without its last one."""
    told = f"session {session}: {reason}"
    if task is not None:
        told = f"while nobody watched, task {task} of session {session} {status}: {reason}"
    return f"holdfast: {plain(told)}"


def ago(stamp: str) -> str:
    """How long ago that was."""
    seconds = max(0.0, time.time() - clock.parse(stamp))
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
