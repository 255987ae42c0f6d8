"""What a stream tells before it is live: the log from where its reader left off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from holdfast.hub import frame
from holdfast.hub.frame import Frame, Place
from holdfast.hub.hub import Hub
from holdfast.store import reads

FIRST = 50  # events read at first
AIM = 256 * 1024  # bytes that a page should have; a thousand readers may have one each


class Past(Protocol):
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


class PastOfOne:
    """The log of one session."""

    def __init__(self, hub: Hub, session: str):
        self.session: str | None = session
        self.place = 0
        self._name = session
        self._hub = hub
        self._epoch = ""
        self._limit = FIRST

    @property
    def cursor(self) -> str:
        """See `Past`."""
        return frame.written(Place(self._epoch, self._name, self.place))

    async def begin(self, cursor: str | None) -> str | None:
        """See `Past`; a plain number is the seq of a record."""
        self._epoch = frame.epoch_of(await self._hub.store.cursor())
        self.place, problem = 0, None
        if cursor:
            last = (await self._hub.store.session(self._name)).events
            self.place, problem = self._find(cursor, last)
        return problem

    def _find(self, cursor: str, last: int) -> tuple[int, str | None]:
        if reads.is_number(cursor):
            place = Place(self._epoch, self._name, int(cursor))
        else:
            place = frame.read(cursor) or Place("", "", 0)
        if (place.epoch, place.session) != (self._epoch, self._name):
            return 0, "that id is none of this stream's"
        return (place.seq, None) if place.seq <= last else (0, "that id is ahead of the log")

    async def pages(self) -> AsyncIterator[bytes]:
        """See `Past`."""
        while lines := await self._hub.store.event_lines(self._name, after=self.place, limit=self._limit):
            pieces = [
                frame.from_line(Place(self._epoch, self._name, seq), line)
                for seq, line in enumerate(lines, self.place + 1)
            ]
            page = b"".join(pieces)
            self._limit = _limit(len(page), len(lines))
            yield page
            self.place += len(lines)


class PastOfAll:
    """The log of all sessions, in the order in which it was written."""

    def __init__(self, hub: Hub) -> None:
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
        self._epoch, self.place = frame.epoch_of(end), frame.number_of(end)
        if not cursor:
            return None
        found = await self._hub.store.changes(cursor, limit=1)
        self.place = 0 if found.gap else frame.number_of(cursor)
        return "that id is none of this stream's, or ahead of it" if found.gap else None

    async def pages(self) -> AsyncIterator[bytes]:
        """See `Past`."""
        while True:
            found = await self._hub.store.changes(self.cursor, limit=self._limit)
            if found.gap or not found.changes:  # a gap: the feed has seen it, too, and begins anew
                return
            page = b"".join([Frame(c.session, c.event, c.cursor).in_all() for c in found.changes])
            self._limit = _limit(len(page), len(found.changes))
            yield page
            self.place = frame.number_of(found.cursor)


def _limit(size: int, count: int) -> int:
    """How many events to read next, by what the last ones were like."""
    return max(1, min(reads.PAGE, AIM * count // max(size, 1)))
