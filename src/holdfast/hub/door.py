"""The hub's door: the socket it listens on, and the server behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from holdfast.hub import app, port, presence, secret
from holdfast.hub.access import Access
from holdfast.hub.adopting import Adopting
from holdfast.hub.hub import Hub
from holdfast.hub.protocol import Protocol
from holdfast.hub.settings import HubSettings

GRACE_S = 5  # for requests that are being answered when the hub ends


class _Server(uvicorn.Server):
    """uvicorn, but signals are the hub's to hear."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Hear none."""
        yield


class Door:
    """Open from its making to its closing."""

    def __init__(self, hub: Hub, chosen: HubSettings):
        self._home = hub.home
        self._socket = port.bind(chosen.host, chosen.port)
        self.url = port.url(self._socket)
        self.token = secret.load(hub.home)
        access = Access(self.token, chosen.host, self._socket.getsockname()[1], chosen.hosts)
        self.adopting = Adopting(hub)
        self._server = _Server(
            uvicorn.Config(
                app.make(hub, access, self.adopting),
                http=Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        presence.announce(hub.home, hub.location, self.url)

    @property
    def is_open(self) -> bool:
        """Whether it serves."""
        return not self._serving.done()

    async def served(self) -> None:
        """Until it serves no more, which it should only do when it is closed."""
        await asyncio.shield(self._serving)
        raise RuntimeError("the server has ended by itself")

    async def close(self) -> None:
        """Let what is being answered be answered, then close."""
        await self.adopting.stop()
        self._server.should_exit = True
        try:
            await self._serving
        finally:
            presence.withdraw(self._home)
            self._socket.close()
