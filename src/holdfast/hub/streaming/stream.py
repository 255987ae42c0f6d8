"""One open stream: hello, the past, then what comes, until the reader leaves or is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol

from litestar.types import Receive, Scope, Send

from holdfast import errors
from holdfast.hub.api.responses import STREAM
from holdfast.hub.http_protocol import CUT
from holdfast.hub.state import HubState
from holdfast.hub.streaming import frames
from holdfast.hub.streaming.feed import Subscriber
from holdfast.hub.streaming.frames import SseFrame, StreamPosition
from holdfast.runner.recorder import PASSING
from holdfast.store import reads

FIRST = 50  # events read at first
AIM = 256 * 1024  # bytes that a page should have; a thousand readers may have one each


class Backlog(Protocol):
    """The log on the way to one reader."""

    session: str | None  # None: of all
    place: int  # what was sent last

    @property
    def cursor(self) -> str:
        """The place, as a reader names it."""
        ...

    async def begin(self, cursor: str | None) -> str | None:
        """Go to where a cursor points; if that is nowhere, to the start, and say why."""
        ...

    def pages(self) -> AsyncIterator[bytes]:
        """All that is in the log behind the place, which moves with it."""
        ...


class OneSessionBacklog:
    """The log of one session."""

    def __init__(self, hub: HubState, session: str):
        self.session: str | None = session
        self.place = 0
        self._name = session
        self._hub = hub
        self._epoch = ""
        self._limit = FIRST

    @property
    def cursor(self) -> str:
        """See `Past`."""
        return frames.written(StreamPosition(self._epoch, self._name, self.place))

    async def begin(self, cursor: str | None) -> str | None:
        """See `Past`; a plain number is the seq of a record."""
        self._epoch = frames.epoch_of(await self._hub.store.cursor())
        self.place, problem = 0, None
        if cursor:
            last = (await self._hub.store.session(self._name)).events
            self.place, problem = self._find(cursor, last)
        return problem

    def _find(self, cursor: str, last: int) -> tuple[int, str | None]:
        if reads.is_number(cursor):
            place = StreamPosition(self._epoch, self._name, int(cursor))
        else:
            place = frames.read(cursor) or StreamPosition("", "", 0)
        if (place.epoch, place.session) != (self._epoch, self._name):
            return 0, "that id is none of this stream's"
        return (place.seq, None) if place.seq <= last else (0, "that id is ahead of the log")

    async def pages(self) -> AsyncIterator[bytes]:
        """See `Past`."""
        while lines := await self._hub.store.event_lines(self._name, after=self.place, limit=self._limit):
            pieces = [
                frames.from_line(StreamPosition(self._epoch, self._name, seq), line)
                for seq, line in enumerate(lines, self.place + 1)
            ]
            page = b"".join(pieces)
            self._limit = _limit(len(page), len(lines))
            yield page
            self.place += len(lines)


class FeedBacklog:
    """The log of all sessions, in the order in which it was written."""

    def __init__(self, hub: HubState) -> None:
        self.session: str | None = None
        self.place = 0
        self._hub = hub
        self._epoch = ""
        self._limit = FIRST

    @property
    def cursor(self) -> str:
        """See `Past`."""
        return f"{self._epoch}.{self.place}"

    async def begin(self, cursor: str | None) -> str | None:
        """See `Past`; without a cursor, from now on."""
        end = await self._hub.store.cursor()
        self._epoch, self.place = frames.epoch_of(end), frames.number_of(end)
        if not cursor:
            return None
        found = await self._hub.store.changes(cursor, limit=1)
        self.place = 0 if found.gap else frames.number_of(cursor)
        return "that id is none of this stream's, or ahead of it" if found.gap else None

    async def pages(self) -> AsyncIterator[bytes]:
        """See `Past`."""
        while True:
            found = await self._hub.store.changes(self.cursor, limit=self._limit)
            if found.gap or not found.changes:  # a gap: the feed has seen it, too, and begins anew
                return
            page = b"".join([SseFrame(c.session, c.event, c.cursor).in_all() for c in found.changes])
            self._limit = _limit(len(page), len(found.changes))
            yield page
            self.place = frames.number_of(found.cursor)


def _limit(size: int, count: int) -> int:
    """How many events to read next, by what the last ones were like."""
    return max(1, min(reads.PAGE, AIM * count // max(size, 1)))


# --- One open stream: hello, the past, then what comes, until the reader leaves or is left.

AGAIN_S = 0.5  # before a store that did not answer is asked again
GONE = "the reader is gone"
ENDING = (errors.NotFound, errors.StoreUnreadable)  # waiting would not help

_START = [
    (b"content-type", STREAM.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # for a proxy that would gather before it sends
]


class Stream:
    """An ASGI answer without end."""

    def __init__(self, hub: HubState, past: Backlog, problem: str | None):
        """`problem`: why the reader's cursor could not be taken."""
        self._hub = hub
        self._past = past
        self._problem = problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        subscriber = self._hub.feed.join(self._past.session)
        extensions: dict[str, Any] = scope.get("extensions") or {}
        subscriber.cut = extensions.get(CUT, {}).get("cut")
        watching = asyncio.create_task(_watch(receive, subscriber))
        try:
            if self._hub.stopping.is_set():
                subscriber.close("the hub stops")
            await send({"type": "http.response.start", "status": 200, "headers": _START})
            await _piece(send, frames.hello(self._past.cursor))
            await self._tell(subscriber, send)
            if subscriber.why != GONE:
                await _piece(send, frames.closing(subscriber.why or ""))
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._hub.feed.leave(subscriber)
            watching.cancel()

    async def _tell(self, subscriber: Subscriber, send: Send) -> None:
        """Past and present, again and again if the log becomes another; returns when it is closed."""
        gap = self._problem
        while subscriber.why is None:
            if gap is not None:
                await _piece(send, frames.gap(self._past.session, gap))
            try:
                await self._tell_past(subscriber, send)
            except ENDING as problem:
                subscriber.close(problem.message)
            while subscriber.why is None and subscriber.reset is None:
                piece, self._past.place = await subscriber.take(self._past.place)
                if piece:
                    await _piece(send, piece)
            why, subscriber.reset = subscriber.reset, None
            if subscriber.why is None:
                await self._hub.opened()
                gap = why if await self._is_another(subscriber) else None

    async def _tell_past(self, subscriber: Subscriber, send: Send) -> None:
        while subscriber.why is None and subscriber.reset is None:
            subscriber.listen()
            try:
                async for page in self._past.pages():
                    if subscriber.why is not None or subscriber.reset is not None:
                        return
                    await _piece(send, page)
            except (errors.StoreClosed, *PASSING):
                await asyncio.sleep(AGAIN_S)
                continue
            if subscriber.go_live():
                self._hub.feed.speech.catch_up(subscriber)
                return

    async def _is_another(self, subscriber: Subscriber) -> bool:
        """Whether the log is another one than before, and begins at its start; else it goes on."""
        cursor = self._past.cursor
        while subscriber.why is None:
            try:
                return await self._past.begin(cursor) is not None
            except ENDING as problem:
                subscriber.close(problem.message)
            except (errors.StoreClosed, *PASSING):
                await asyncio.sleep(AGAIN_S)
        return False


async def _watch(receive: Receive, subscriber: Subscriber) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    subscriber.close(GONE)


async def _piece(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
