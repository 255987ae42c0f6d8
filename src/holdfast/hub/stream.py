"""One open stream: hello, the past, then what comes, until the reader leaves or is left."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar.types import Receive, Scope, Send

from holdfast import errors
from holdfast.hub import frame
from holdfast.hub.answers import STREAM
from holdfast.hub.hub import Hub
from holdfast.hub.past import Past
from holdfast.hub.protocol import CUT
from holdfast.hub.subscriber import Subscriber
from holdfast.work.journal import PASSING

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

    def __init__(self, hub: Hub, past: Past, problem: str | None):
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
            await _piece(send, frame.hello(self._past.cursor))
            await self._tell(subscriber, send)
            if subscriber.why != GONE:
                await _piece(send, frame.closing(subscriber.why or ""))
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._hub.feed.leave(subscriber)
            watching.cancel()

    async def _tell(self, subscriber: Subscriber, send: Send) -> None:
        """Past and present, again and again if the log becomes another; returns when it is closed."""
        gap = self._problem
        while subscriber.why is None:
            if gap is not None:
                await _piece(send, frame.gap(self._past.session, gap))
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
