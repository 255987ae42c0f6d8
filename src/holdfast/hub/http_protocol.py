"""HTTP as uvicorn speaks it, with bounds on a request's head and on how long it may take to come."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.hub.visitors import Visitors

TRUST = "holdfast.trust"  # in a request's extensions: what notes that its connection presented a token
CUT = "holdfast.cut"  # in a request's extensions: what ends its connection, whatever waits to be sent
HEAD = 64 * 1024  # bytes of a request's first line and headers
MOMENT_S = 2.0  # when the hub ends: for who has come, but has not asked yet


class HubHttpProtocol(HttpToolsProtocol):
    """One connection."""

    visitors: ClassVar[Visitors]
    COME_S: ClassVar[float] = 60.0  # from a connection, or a request's first byte, until all of it is here

    _head: int | None = None  # bytes of a head that is not whole yet
    _ending = False
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there, and is to say something."""
        super().connection_made(transport)
        self._wait()
        self.visitors.come(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._have()
        self.visitors.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a piece; a head that does not end is refused."""
        super().data_received(data)
        if self._head is not None and not self.transport.is_closing():
            self._head += len(data)
            if self._head > HEAD:
                self.send_400_response("The head of the request is too large.")

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends nothing more; it still reads the answer to a request that it sent in full.

        uvicorn closes here, so an answer that needs a thread or the disk would never arrive. A stream that
        has begun is closed: this is how its reader leaves.
        """
        cycle = self.cycle
        if cycle is None or cycle.more_body or cycle.response_started:
            return False
        cycle.keep_alive = False
        return True

    def on_message_begin(self) -> None:
        """A head begins."""
        self._head = 0
        if self._late is None:
            self._wait()
        super().on_message_begin()
        self.scope["extensions"] = {CUT: {"cut": self.transport.abort}, TRUST: {"trust": self._trust}}

    def on_headers_complete(self) -> None:
        """The head has ended."""
        self._head = None
        super().on_headers_complete()
        if self._ending:
            self.cycle.keep_alive = False

    @property
    def is_answering(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def cut(self) -> None:
        """Close it at once."""
        self.transport.abort()

    def _trust(self) -> None:
        self.visitors.trust(self)

    def shutdown(self) -> None:
        """The hub ends: a request that is on its way here is still answered."""
        self._ending = True
        if self.cycle is None or self._head is not None:
            self.loop.call_later(MOMENT_S, self._leave)
        else:
            super().shutdown()

    def _leave(self) -> None:
        """Close it, unless something is being answered."""
        super().shutdown()

    def on_message_complete(self) -> None:
        """All of a request is here."""
        self._have()
        super().on_message_complete()

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.COME_S, self.transport.abort)

    def _have(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
