"""The hub's door: the socket it listens on, and the server behind it."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import uvicorn

from holdfast import durable_io, timestamps
from holdfast.client.discovery import hub_file_path, store_fingerprint
from holdfast.errors import PortTaken
from holdfast.home import Home
from holdfast.hub import app, auth
from holdfast.hub.auth import AccessRules
from holdfast.hub.http_protocol import HubHttpProtocol
from holdfast.hub.imports import ImportService
from holdfast.hub.logins import Logins
from holdfast.hub.state import HubState
from holdfast.hub.visitors import Visitors
from holdfast.process import identity
from holdfast.settings import PORT, HubSettings
from holdfast.shortage import raise_file_limit
from holdfast.store.location import Location

BACKLOG = 2048
LOST_MS = 120_000  # a reader that takes nothing for so long is gone


def bind(host: str, port: int | None) -> socket.socket:
    """A listening socket; without a port the usual one, or a free one where that is taken."""
    try:
        return _bind(host, PORT if port is None else port)
    except OSError as problem:
        if port is None and problem.errno == errno.EADDRINUSE:
            return bind(host, 0)
        where = f"{host}:{PORT if port is None else port}"
        raise PortTaken(f"cannot listen on {where}: {problem.strerror or problem}") from problem


def url(made: socket.socket) -> str:
    """The address that a person on this machine opens."""
    host, port = made.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_MS)
        made.bind(address)
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    made.setblocking(False)
    return made


# --- The file that tells where the hub of a home is, as long as one runs.


def announce(home: Home, location: Location, url: str) -> None:
    """Say where we are; what a killed hub left there is replaced."""
    me = identity.me("")
    told = {"pid": me.pid, "started": me.started, "boot": me.boot, "url": url, "at": timestamps.now()}
    told["store"] = store_fingerprint(location)
    path = hub_file_path(home)
    temp = durable_io.temp_name(path)
    durable_io.create(temp, [json.dumps(told).encode() + b"\n"])
    with durable_io.reported(path):
        durable_io.DISK.rename(temp, path)


def withdraw(home: Home) -> None:
    """We are gone."""
    with suppress(FileNotFoundError):
        os.unlink(hub_file_path(home))


# --- The hub's door: the socket it listens on, and the server behind it.

GRACE_S = 5  # for requests that are being answered when the hub ends


class _Server(uvicorn.Server):
    """uvicorn, but signals are the hub's to hear."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Hear none."""
        yield


class HttpServer:
    """Open from its making to its closing."""

    def __init__(self, hub: HubState, chosen: HubSettings):
        self._home = hub.home
        self._socket = bind(chosen.host, chosen.port)
        self.url = url(self._socket)
        self.token = auth.load(hub.home)
        hub.logins = Logins(hub.home, self.token)
        port = self._socket.getsockname()[1]
        access = AccessRules(self.token, chosen.host, port, chosen.hosts, hub.logins)
        self.adopting = ImportService(hub)
        self._server = _Server(
            uvicorn.Config(
                app.make(hub, access, self.adopting),
                http=type("HubProtocol", (HubHttpProtocol,), {"visitors": Visitors(raise_file_limit())}),
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
        announce(hub.home, hub.location, self.url)

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
            withdraw(self._home)
            self._socket.close()
