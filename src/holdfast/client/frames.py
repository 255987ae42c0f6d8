"""Server-sent events out of the pieces in which they come; pure."""

from __future__ import annotations

from typing import Any, NamedTuple


class Message(NamedTuple):
    """One message of a stream: `event`, `partial`, `gap` or `closing`; "" where only a cursor was told."""

    name: str
    cursor: str | None
    data: dict[str, Any]


class Frames:
    """Puts messages together; a comment is none, and what is not whole waits for the rest."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[Message]:
        """The messages that are whole with this piece."""
        *whole, self._rest = (self._rest + piece).replace(b"\r\n", b"\n").split(b"\n\n")
        return [found for text in whole if (found := _message(text)) is not None]


def _message(text: bytes) -> Message | None:
    import json

    name, cursor, data = "message", None, []
    for line in text.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"event":
                name = value.decode()
            case b"id":
                cursor = value.decode()
            case b"data":
                data.append(value)
    if data:
        return Message(name, cursor, json.loads(b"\n".join(data)))
    return None if cursor is None else Message("", cursor, {})
