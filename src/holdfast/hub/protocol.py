"""HTTP as uvicorn speaks it, with bounds on a request's head and on how long it may take to come."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CUT = "holdfast.cut"  # in a request's extensions: what ends its connection, whatever waits to be sent
HEAD = 64 * 1024  # bytes of a request's first line and headers


class Protocol(HttpToolsProtocol):
    """One connection."""

    COME_S: ClassVar[float] = 60.0  # from a connection, or a request's first byte, until all of it is here

    _head: int | None = None  # bytes of a head that is not whole yet
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there, and is to say something."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._have()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a piece; a head that does not end is refused."""
        super().data_received(data)
        if self._head is not None and not self.transport.is_closing():
            self._head += len(data)
            if self._head > HEAD:
                self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """A head begins."""
        self._head = 0
        if self._late is None:
            self._wait()
        super().on_message_begin()
        self.scope["extensions"] = {CUT: {"cut": self.transport.abort}}

    def on_headers_complete(self) -> None:
        """The head has ended."""
        self._head = None
        super().on_headers_complete()

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
