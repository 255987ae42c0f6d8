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

# What a terminal would obey or hide, beyond what JSON escapes itself; it occurs only inside strings.
_UNSAFE_IN_JSON = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


def json_line(value: Any) -> None:
    """Print one value as JSON on one line."""
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        line.encode()
    except UnicodeEncodeError:  # lone surrogates, which some locales would print as bytes that are not UTF-8
        line = json.dumps(value, separators=(",", ":"))
    json_text(line)


def json_text(line: str) -> None:
    """Print a line of JSON; escape what a terminal would obey, so that it stays the same JSON."""
    _print(_UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", line), sys.stdout)


def text(line: str) -> None:
    """Print lines for a person, cleaned: agents, repositories and other tools control parts of them."""
    _print(clean(line), sys.stdout)


def note(line: str) -> None:
    """The same on standard error."""
    _print(clean(line), sys.stderr)


def styled(line: str) -> None:
    """Print a line with our own colors or tabs; its other parts are already cleaned (`plain`)."""
    _print(line, sys.stdout)


def clean(value: str) -> str:
    """Text of several lines without anything that a terminal would obey."""
    return "\n".join(plain(line) for line in value.split("\n"))


def plain(value: object) -> str:
    """Text for a terminal: one line, nothing that moves the cursor or reorders text."""
    shown = "" if value is None else str(value)
    return shown if shown.isprintable() else "".join(c if c.isprintable() else " " for c in shown)


def _print(line: str, stream: TextIO) -> None:
    """Print; escape what the locale cannot encode."""
    try:
        print(line, file=stream, flush=stream is sys.stderr)
    except UnicodeEncodeError:
        encoding = stream.encoding or "utf-8"
        print(line.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def counted(count: int, noun: str) -> str:
    """`1 session`, `2 sessions`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def table(head: Sequence[str], rows: Sequence[Sequence[object]], drop: Sequence[str] = ()) -> None:
    """Print columns, wrapped to the width of the terminal; `drop`: the first to go if it is narrow."""
    cells = [list(head), *([plain(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    room = columns()
    if room is not None and sum(widths) + 2 * (len(widths) - 1) > room:
        from holdfast.cli.columns import fitted

        for line in fitted(cells, max(room, MINIMUM), [head.index(name) for name in drop]):
            text(line)
        return
    for row in cells:
        text("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def shortened(value: str, length: int) -> str:
    """A text of at most that many letters, cut between words; a single long word is cut where it must be."""
    if len(value) <= length:
        return value
    kept = value[: length - 2]
    return (kept.rpartition(" ")[0] or kept) + " …"


def finished_line(task: str | None, session: str, status: str, reason: str | None) -> str:
    """The line about a task that ended while no worker ran, or a session without its last task."""
    line = f"session {session}: {reason}"
    if task is not None:
        line = f"while no worker ran, task {task} of session {session} {status}: {reason}"
    return f"holdfast: {plain(line)}"


def ago(stamp: str) -> str:
    """How long ago the time was."""
    seconds = max(0.0, time.time() - timestamps.parse(stamp))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit} ago"
    return f"{int(seconds)}s ago"


def columns() -> int | None:
    """The width of the terminal; None if there is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return None  # not a terminal: nothing is cut


MINIMUM = 40  # a table is never narrower
WIDTH = 30
EVERY_S = 0.1


def _columns() -> int:
    """A wider line could not be erased completely."""
    return shutil.get_terminal_size().columns


class ProgressBar:
    """A progress bar on standard error; silent if that is not a terminal."""

    def __init__(self, what: str, total: float):
        self._what = what
        self._total = total
        self._visible = sys.stderr.isatty()
        self._drawn_at = 0.0

    def at(self, done: float, note: str = "", *, begins: bool = False) -> None:
        """Show the progress; not every time, but always when a new part begins."""
        now = time.monotonic()
        if not self._visible or (now - self._drawn_at < EVERY_S and not begins):
            return
        self._drawn_at = now
        part = min(1.0, done / self._total) if self._total else 1.0
        filled = round(part * WIDTH)
        line = f"{self._what} [{'█' * filled}{'·' * (WIDTH - filled)}] {part:4.0%} {plain(note)}"
        print(f"\r\x1b[K{line[: _columns() - 1]}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Erase the bar."""
        if self._visible:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
