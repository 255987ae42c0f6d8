"""One reader of a stream: what waits for it, within bounds."""

from __future__ import annotations

import asyncio
from collections import deque

from holdfast.hub.frame import BEAT, Frame

FRAMES = 4096  # that may wait
BYTES = 8 * 1024 * 1024  # of them


class Subscriber:
    """Frames on their way to one reader; they are shared with all others, so only references wait here."""

    def __init__(self, session: str | None):
        self.session = session  # None: of all
        self.why: str | None = None  # it is closed
        self.reset: str | None = None  # the log it read is another now
        self.missed = False  # it came to be too much while the past was being read
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
        """All that waits beyond a place, as one piece, and the place it leads to; waits for something.

        Empty if the stream is closed or begins anew.
        """
        while True:
            if self.why is not None or self.reset is not None:
                return b"", after
            pieces = []
            for place, data in self._frames:
                if place > after:
                    pieces.append(data)
                    after = place
            self._frames.clear()
            self._bytes = 0
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
        else:
            self.missed = True
            self._drop()

    def _drop(self) -> None:
        self._frames.clear()
        self._partials.clear()
        self._bytes = 0

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
