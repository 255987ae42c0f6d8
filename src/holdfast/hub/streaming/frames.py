"""What goes over a stream: frames of server-sent events, each encoded once for all who read it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast.model import json_codec as texts
from holdfast.model.event import Event
from holdfast.store import reads

BEAT = b": beat\n\n"


class StreamPosition(NamedTuple):
    """Where a session's stream is: after that record of that session of that database."""

    epoch: str
    session: str
    seq: int


class SseFrame:
    """One event, and where it is in its session's stream and in that of all."""

    __slots__ = ("_data", "_in_all", "_in_session", "cursor", "event", "session")

    def __init__(self, session: str, event: Event, cursor: str):
        self.session = session
        self.event = event
        self.cursor = cursor  # of the change feed
        self._data: bytes | None = None
        self._in_all: bytes | None = None
        self._in_session: bytes | None = None

    @property
    def number(self) -> int:
        """Its place among all events."""
        return number_of(self.cursor)

    def in_all(self) -> bytes:
        """As the stream of all sessions sends it."""
        if self._in_all is None:
            self._in_all = _event(self.cursor, self._encoded())
        return self._in_all

    def in_session(self) -> bytes:
        """As its session's stream sends it."""
        if self._in_session is None:
            place = StreamPosition(epoch_of(self.cursor), self.session, self.event.seq)
            self._in_session = _event(written(place), self._encoded())
        return self._in_session

    def _encoded(self) -> bytes:
        if self._data is None:
            self._data = _encode({"session": self.session, "event": self.event})
        return self._data


def from_line(place: StreamPosition, line: str) -> bytes:
    """An event of a session's stream from its JSON line."""
    return _event(written(place), f'{{"session":"{place.session}","event":{line}}}'.encode())


def hello(cursor: str) -> bytes:
    """The first frame: where the reader is, so that it can come back before anything was sent."""
    return f": hello\nretry: 1000\nid: {cursor}\n\n".encode()


def gap(session: str | None, why: str) -> bytes:
    """What comes next does not follow on what came before."""
    return _named("gap", {"session": session, "why": why})


def closing(why: str) -> bytes:
    """The hub ends the stream."""
    return _named("closing", {"why": why})


def partial(session: str, task: str, kind: str, text: str) -> bytes:
    """What an agent has said so far of a block that is not whole yet."""
    return _named("partial", {"session": session, "task": task, "kind": kind, "text": text})


def written(place: StreamPosition) -> str:
    """A session's place as a cursor."""
    return f"{place.epoch}/{place.session}/{place.seq}"


def read(cursor: str) -> StreamPosition | None:
    """A cursor of a session's stream; None if it is none."""
    epoch, _, rest = cursor.partition("/")
    session, _, seq = rest.partition("/")
    return StreamPosition(epoch, session, int(seq)) if reads.is_number(seq) else None


def epoch_of(cursor: str) -> str:
    """Which database a cursor of the feed is of."""
    return cursor.rpartition(".")[0]


def number_of(cursor: str) -> int:
    """Which of its records."""
    return int(cursor.rpartition(".")[2])


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a character, which agents do send
        return texts.encode(value)


def _event(cursor: str, data: bytes) -> bytes:
    return b"id: " + cursor.encode() + b"\nevent: event\ndata: " + data + b"\n\n"


def _named(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: ".encode() + _encode(data) + b"\n\n"
