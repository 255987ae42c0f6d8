"""The one reader of the change feed, from which all streams are fed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from holdfast.hub.streaming import frames
from holdfast.hub.streaming.frames import BEAT, SseFrame
from holdfast.model.event import Event
from holdfast.runner.context import ReadPartial
from holdfast.runner.recorder import PASSING
from holdfast.store.store import Store
from holdfast.store.types import ChangeFeedPage

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

    def put(self, frame: SseFrame) -> None:
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

        Empty if the stream is closed or starts over.
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


# --- What agents are saying just now: blocks that are not whole, told to whoever reads, not too often.

LONGEST = 64 * 1024  # letters of a block that are told: its last ones
REST_S = 0.1  # between two tellings of it

Readers = Callable[[str], Sequence[Subscriber]]  # who reads a session


class PartialText:
    """Asks the drivers of this hub's tasks; nothing is kept here but whom to ask."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._asked: dict[str, tuple[str, ReadPartial]] = {}  # by task: its session, and what it is saying
        self._told: dict[str, bool] = {}  # tasks told of a moment ago: whether more was said since

    def overhear(self, session: str, task: str, unfinished: ReadPartial | None) -> None:
        """An agent has said something; None: nobody here listens to it any more."""
        if unfinished is None:
            self._asked.pop(task, None)
            return
        self._asked[task] = (session, unfinished)
        self.tell(task)

    def tell(self, task: str) -> None:
        """Tell all readers of a task what is being said in it."""
        if task in self._told:
            self._told[task] = True
            return
        if task not in self._asked:
            return
        session, unfinished = self._asked[task]
        readers = self._readers(session)
        if not readers or (data := _said(session, task, unfinished)) is None:
            return
        for reader in readers:
            reader.put_partial(task, data)
        self._told[task] = False
        asyncio.get_running_loop().call_later(REST_S, self._rested, task)

    def catch_up(self, reader: Subscriber) -> None:
        """Tell one who came in the middle of it."""
        for task, (session, unfinished) in self._asked.items():
            if reader.session in (None, session) and (data := _said(session, task, unfinished)) is not None:
                reader.put_partial(task, data)

    def _rested(self, task: str) -> None:
        if self._told.pop(task):
            self.tell(task)


def _said(session: str, task: str, unfinished: ReadPartial) -> bytes | None:
    told = unfinished()
    return None if told is None else frames.partial(session, task, told[0], told[1][-LONGEST:])


# --- The one reader of the change feed, from which all streams are fed.

BEAT_S = 15.0
AGAIN_S = 1.0  # before a store that did not answer is asked again

log = logging.getLogger(__name__)


class Feed:
    """Passes on what is committed, by whatever process, to everybody who reads it."""

    def __init__(self, stuck_s: float = STUCK_S) -> None:
        """`stuck_s`: for how long a reader that is too slow may leave untaken why it is closed."""
        self._stuck_s = stuck_s
        self.events = 0  # passed on since the start
        self._of_all: set[Subscriber] = set()
        self._of_session: dict[str, set[Subscriber]] = {}
        self.speech = PartialText(self._readers)
        self._ears: list[Callable[[str, Event], None]] = []

    @property
    def subscribers(self) -> int:
        """How many read."""
        return len(self._of_all) + sum(map(len, self._of_session.values()))

    def hear(self, ear: Callable[[str, Event], None]) -> None:
        """Call `ear` with the session and the event of every change."""
        self._ears.append(ear)

    def join(self, session: str | None) -> Subscriber:
        """A new reader of one session or of all; it must `leave`."""
        made = Subscriber(session, self._stuck_s)
        made.listen()
        if session is None:
            self._of_all.add(made)
        else:
            self._of_session.setdefault(session, set()).add(made)
        return made

    def leave(self, subscriber: Subscriber) -> None:
        """The reader is gone."""
        subscriber.leave()
        if subscriber.session is None:
            self._of_all.discard(subscriber)
            return
        others = self._of_session.get(subscriber.session, set())
        others.discard(subscriber)
        if not others:
            self._of_session.pop(subscriber.session, None)

    async def run(self, store: Store, cursor: str) -> None:
        """Follow a store from that cursor on, without end."""
        while True:
            try:
                async for changes in store.follow(cursor):
                    if changes.gap:
                        self.begin_anew("the database is another one")
                    else:
                        self._pass_on(changes)
                    cursor = changes.cursor
            except PASSING as problem:
                log.warning("%s; the streams go on when it is back", problem.message)
                await asyncio.sleep(AGAIN_S)

    async def beat(self) -> None:
        """Signs of life, without end."""
        while True:
            await asyncio.sleep(BEAT_S)
            for subscriber in self._everybody():
                subscriber.put_beat()

    def begin_anew(self, why: str) -> None:
        """The log is another one: everybody reads again from the start, and is told so."""
        for subscriber in self._everybody():
            subscriber.begin_anew(why)

    def close(self, why: str) -> None:
        """End all streams."""
        for subscriber in self._everybody():
            subscriber.close(why)

    def _readers(self, session: str) -> Sequence[Subscriber]:
        return [*self._of_session.get(session, ()), *self._of_all]

    def _pass_on(self, changes: ChangeFeedPage) -> None:
        for change in changes.changes:
            self.events += 1
            for ear in self._ears:
                ear(change.session, change.event)
            of_session = self._of_session.get(change.session)
            if not of_session and not self._of_all:
                continue
            made = SseFrame(change.session, change.event, change.cursor)
            for subscriber in of_session or ():
                subscriber.put(made)
            for subscriber in self._of_all:
                subscriber.put(made)
            if change.event.task is not None:
                self.speech.tell(change.event.task)  # an event ends what was told before it

    def _everybody(self) -> Iterable[Subscriber]:
        return [*self._of_all, *(one for some in self._of_session.values() for one in some)]
