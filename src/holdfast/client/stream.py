"""Follow a stream of the hub, across lost connections and restarts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from typing import Any, NamedTuple

from holdfast import errors
from holdfast.client.discovery import HubAddress
from holdfast.client.http import HubConnection


class StreamMessage(NamedTuple):
    """One message of a stream: `event`, `partial`, `gap` or `closing`; "" if it has only a cursor."""

    name: str
    cursor: str | None
    data: dict[str, Any]


class SseParser:
    """Parses server-sent events; skips comments, and keeps an incomplete message until the rest arrives."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[StreamMessage]:
        """The messages that this piece completes."""
        *whole, self._rest = (self._rest + piece).replace(b"\r\n", b"\n").split(b"\n\n")
        return [found for text in whole if (found := _message(text)) is not None]


def _message(text: bytes) -> StreamMessage | None:
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
        return StreamMessage(name, cursor, json.loads(b"\n".join(data)))
    return None if cursor is None else StreamMessage("", cursor, {})


QUIET_S = 45.0  # three heartbeats: a hub that is silent for longer is gone
PAUSE_S = 0.1  # before the next attempt; doubled each time
MAX_PAUSE_S = 2.0


def follow(
    look: Callable[[], HubAddress | None], path: str, after: str | None, patience_s: float
) -> Iterator[StreamMessage]:
    """Messages, each event once and in order; HubGone when no hub was there for `patience_s`.

    A `gap` says that the hub could not continue from our cursor. It also says whether the following messages
    are from the start or from now.
    """
    last: str | None = None  # of the last event; before the first one, `after` says from where
    pause, gone_at = PAUSE_S, time.monotonic()
    while True:
        try:
            for message in _connection(look, path, after if last is None else None, last):
                pause, gone_at = PAUSE_S, time.monotonic()
                if message is None:
                    continue
                if message.cursor is not None:
                    last = message.cursor
                if message.name:
                    yield message
                gone_at = time.monotonic()  # the time of our caller does not count
        except (errors.HubGone, errors.StoreBusy) as problem:
            if time.monotonic() - gone_at > patience_s:
                raise errors.HubGone(f"no hub for {patience_s:.0f} s: {problem.message}") from None
        time.sleep(pause)
        pause = min(pause * 2, MAX_PAUSE_S)


def _connection(
    look: Callable[[], HubAddress | None], path: str, after: str | None, last: str | None
) -> Iterator[StreamMessage | None]:
    """The messages of one connection, and None for each sign of life between them, until it ends."""
    door = look()
    if door is None:
        raise errors.HubGone("no hub is running")
    frames = SseParser()
    with HubConnection(door).listening(path, {"after": after}, last, QUIET_S) as stream:
        while True:
            try:
                piece = stream.read1(65536)
            except (OSError, HTTPException, ValueError) as problem:
                raise errors.HubGone(f"the stream broke: {problem!r}") from None
            if not piece:
                return
            yield None
            for message in frames.feed(piece):
                if message.name == "closing":
                    return
                yield message
