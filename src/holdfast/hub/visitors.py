"""Connections that have not presented a token: only so many stay, and they are the first to be closed."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from holdfast.shortage import RESERVE

MOST_UNKNOWN = 64
YOUNG_S = 1.0  # a connection this young may have a request on its way
LOOK_S = 0.25  # between looks while there are too many

log = logging.getLogger(__name__)


class VisitorConnection(Protocol):
    """One connection, as far as it matters here."""

    @property
    def is_answering(self) -> bool:
        """Whether a request of it is being answered."""
        ...

    def cut(self) -> None:
        """Close it at once."""
        ...


class Visitors:
    """All connections of one server."""

    def __init__(self, file_limit: int, most_unknown: int = MOST_UNKNOWN):
        self._most = max(16, file_limit - RESERVE)  # the rest is for runs and the store
        self._most_unknown = min(most_unknown, self._most // 2)
        self._unknown: dict[VisitorConnection, float] = {}  # since when; the oldest first
        self._known: set[VisitorConnection] = set()
        self._looking = False

    @property
    def unknown(self) -> int:
        """How many have not presented a token."""
        return len(self._unknown)

    def come(self, connection: VisitorConnection) -> None:
        """A new one."""
        loop = asyncio.get_running_loop()
        self._unknown[connection] = loop.time()
        if len(self._unknown) + len(self._known) > self._most:
            self._close_one()
        if not self._looking and len(self._unknown) > self._most_unknown:
            self._looking = True
            loop.call_later(LOOK_S, self._close_old)

    def trust(self, connection: VisitorConnection) -> None:
        """It has presented a token."""
        if self._unknown.pop(connection, None) is not None:
            self._known.add(connection)

    def leave(self, connection: VisitorConnection) -> None:
        """It is gone."""
        self._unknown.pop(connection, None)
        self._known.discard(connection)

    def _close_old(self) -> None:
        """Close the oldest of too many, but none that may have a request on its way."""
        loop = asyncio.get_running_loop()
        while len(self._unknown) > self._most_unknown:
            oldest = self._oldest()
            if loop.time() - self._unknown[oldest] < YOUNG_S:
                break
            self._cut(oldest)
        self._looking = len(self._unknown) > self._most_unknown
        if self._looking:
            loop.call_later(LOOK_S, self._close_old)

    def _close_one(self) -> None:
        """There is no room at all: the newest is unknown, so there is one to close."""
        self._cut(self._oldest())

    def _oldest(self) -> VisitorConnection:
        idle = (connection for connection in self._unknown if not connection.is_answering)
        return next(idle, next(iter(self._unknown)))

    def _cut(self, connection: VisitorConnection) -> None:
        del self._unknown[connection]
        log.info("a connection without a token is closed: there are too many")
        connection.cut()
