"""JSON lines on stdin and stdout."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Iterable

TYPE_CHECKING = False  # `typing` would cost a tenth of the start
if TYPE_CHECKING:
    from typing import Any

PIECE = 1 << 16

_encode = json.JSONEncoder(separators=(",", ":")).encode


class NotJson(Exception):
    """A line that is no JSON object."""


class Wire:
    """The two ends of the conversation; `open` until stdin has ended."""

    def __init__(self, stdin: int = 0, stdout: int = 1):
        self.open = True
        self._stdin = stdin
        self._stdout = stdout
        self._rest = bytearray()

    def send(self, message: dict[str, Any]) -> None:
        """One message, handed over whole before this returns."""
        self.write(_encode({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        """Bytes as they are."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._stdout, view) :]

    def wait(self, others: Iterable[int], seconds: float | None) -> tuple[list[bytes], set[int]]:
        """The lines that came, and which of `others` can be read; nothing of either when time is up."""
        watched = [*others]
        if self.open:
            watched.append(self._stdin)
        ready = set(select.select(watched, [], [], seconds)[0])
        if not self.open or self._stdin not in ready:
            return [], ready
        ready.discard(self._stdin)
        return self._read(), ready

    def _read(self) -> list[bytes]:
        got = os.read(self._stdin, PIECE)
        if not got:
            self.open = False
            return []
        seen = len(self._rest)
        self._rest += got
        end = self._rest.rfind(b"\n", seen) + 1
        if not end:
            return []
        lines = bytes(self._rest[:end]).split(b"\n")[:-1]
        del self._rest[:end]
        return lines


def parse(line: bytes) -> dict[str, Any]:
    """The message in a line; NotJson where there is none."""
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if type(message) is not dict:
        raise NotJson
    return message
