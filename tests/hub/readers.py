"""Many readers of a stream in one process, over bare sockets: attentive, slow and vanishing ones."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from urllib.parse import urlsplit

from tests.hub.running_hub import RunningHub


class Reader:
    """One connection to a stream; counts the events that came."""

    def __init__(self, hub: RunningHub, path: str):
        self._hub = hub
        self._path = path
        self.events = 0
        self.closing = False
        self._news = asyncio.Event()
        self._kept = b""

    async def connect(self, *, buffer: int = 0) -> None:
        """Ask for the stream and wait for its first word."""
        parts = urlsplit(self._hub.url)
        line = socket.socket()
        line.setblocking(False)
        if buffer:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        await asyncio.get_running_loop().sock_connect(line, (parts.hostname, parts.port))
        self._in, self._out = await asyncio.open_connection(sock=line, limit=16384 if buffer else 65536)
        self._out.write(
            f"GET {self._path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Authorization: Bearer {self._hub.token}\r\nConnection: close\r\n\r\n".encode()
        )
        head = await self._in.readuntil(b": hello")
        assert b" 200 " in head, head

    async def read(self) -> None:
        """Until it ends."""
        while piece := await self._in.read(65536):
            text = self._kept + piece
            self.events += text.count(b"\nevent: event\n")
            self.closing = self.closing or b"\nevent: closing\n" in text or b"event: closing" in text
            self._kept = text[-14:] if not text.endswith(b"\nevent: event\n") else b""
            self._news.set()

    async def until(self, events: int) -> None:
        """Until so many have come."""
        while self.events < events:
            self._news.clear()
            await self._news.wait()

    def vanish(self) -> None:
        """Gone, without a word."""
        transport = self._out.transport
        assert isinstance(transport, asyncio.Transport)
        transport.abort()

    async def close(self) -> None:
        """Hang up."""
        self._out.close()
        with contextlib.suppress(ConnectionError):
            await self._out.wait_closed()
