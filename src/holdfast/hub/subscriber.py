"""One reader of a stream: what waits for it, within bounds."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from holdfast.hub.frame import BEAT, Frame

FRAMES = 4096  # that may wait
BYTES = 8 * 1024 * 1024  # of them
PIECE = 64 * 1024  # bytes that are sent at once; an event may be longer
STUCK_S = 60.0  # for a reader that is too slow to take the reason why it is closed


class Subscriber:
    """Frames on their way to one reader; they are shared with all others, so only references wait here."""

    def __init__(self, session: str | None, stuck_s: float = STUCK_S):
        self._stuck_s = stuck_s
        self.session = session  # None: of all
        self.why: str | None = None  # it is closed
        self.reset: str | None = None  # the log it read is another now
        self.missed = False  # it came to be too much while the past was being read
        self.cut: Callable[[], None] | None = None  # ends its connection at once
        self._left = False
        self._live = False
        self._frames: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._partials: dict[str, bytes] = {}  # by task: the latest
        self._beat = False
        self._waiter: asyncio.Future[None] | None = None

    def listen(self) -> None:
        """From now on all that comes waits here, while the past is read."""
        self._live = self.missed = False
        self._drop()

    def go_live(self) -> bool:
        """The past was read; False if too much has come meanwhile, and it must be read again."""
        self._live = not self.missed
        return self._live

    def put(self, frame: Frame) -> None:
        """An event."""
        if self.why is not None or self.missed:
            return
        if self.session is None:
            place, data = frame.number, frame.in_all()
        else:
            place, data = frame.event.seq, frame.in_session()
        if frame.event.task is not None:
            self._partials.pop(frame.event.task, None)
        self._frames.append((place, data))
        self._bytes += len(data)
        if len(self._frames) > FRAMES or self._bytes > BYTES:
            self._overflow()
        self._wake()

    def put_partial(self, task: str, data: bytes) -> None:
        """The latest of a block that is being said; what it replaces need not be sent."""
        if self._live and self.why is None:
            self._partials[task] = data
            self._wake()

    def put_beat(self) -> None:
        """A sign of life, if there is nothing better to send."""
        if self._live and not self._frames:
            self._beat = True
            self._wake()

    def close(self, why: str) -> None:
        """End it; what waits is not sent any more, and is there when the reader comes back."""
        if self.why is None:
            self.why = why
            self._drop()
            self._wake()

    def begin_anew(self, why: str) -> None:
        """What was sent is of a log that is not there any more."""
        self.reset = why
        self._drop()
        self._wake()

    async def take(self, after: int) -> tuple[bytes, int]:
        """The next of what waits beyond a place, and the place it leads to; waits for something.

        A piece is no longer than it must be: each reader's connection has a copy of its own.

        Empty if the stream is closed or begins anew.
        """
        while True:
            if self.why is not None or self.reset is not None:
                return b"", after
            pieces, size = [], 0
            while self._frames and size < PIECE:
                place, data = self._frames.popleft()
                self._bytes -= len(data)
                if place > after:
                    pieces.append(data)
                    size += len(data)
                    after = place
            if not self._frames:
                pieces += self._partials.values()
                self._partials.clear()
            if self._beat and not pieces:
                pieces.append(BEAT)
            self._beat = False
            if pieces:
                return b"".join(pieces), after
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _overflow(self) -> None:
        if self._live:
            self.close("too slow: connect again and go on from the last id")
            asyncio.get_running_loop().call_later(self._stuck_s, self._end)
        else:
            self.missed = True
            self._drop()

    def leave(self) -> None:
        """The stream has ended."""
        self._left = True

    def _end(self) -> None:
        if not self._left and self.cut is not None:
            self.cut()

    def _drop(self) -> None:
        self._frames.clear()
        self._partials.clear()
        self._bytes = 0

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
