"""The socket that the hub listens on."""

from __future__ import annotations

import errno
import socket

from holdfast.errors import PortTaken
from holdfast.hub.settings import PORT

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
