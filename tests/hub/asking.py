"""Requests as a stranger, a browser or a program would send them."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.hub.running_hub import RunningHub

DEADLINE_S = 60.0


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def raw(
    hub: RunningHub, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
) -> Answer:
    """A request with just these headers, and Host."""
    connection, response = _send(hub, method, path, headers or {}, body)
    try:
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def ask(hub: RunningHub, method: str, path: str, value: Any = None, **headers: str) -> Answer:
    """A request that brings the token, and JSON if there is any."""
    sent = {"Authorization": f"Bearer {hub.token}", **headers}
    if value is not None:
        sent["Content-Type"] = "application/json"
    return raw(hub, method, path, sent, None if value is None else json.dumps(value).encode())


def get(hub: RunningHub, path: str) -> Any:
    """What there is; it must be there."""
    found = ask(hub, "GET", path)
    assert found.status == 200, found
    return found.json


class Listening:
    """A stream that is read frame by frame; `buffer`: what the kernel may keep for a reader that is slow."""

    def __init__(self, hub: RunningHub, path: str, last: str | None = None, buffer: int = 0):
        sent = {"Authorization": f"Bearer {hub.token}"} | ({} if last is None else {"Last-Event-ID": last})
        self._connection, self.response = _send(hub, "GET", path, sent, None, buffer)
        assert self.response.status == 200

    def frame(self) -> dict[str, str]:
        """The next frame, by field; a comment is under the empty name."""
        found: dict[str, str] = {}
        while line := self.response.readline().decode().rstrip("\n"):
            name, _, value = line.partition(":")
            found[name] = value.removeprefix(" ")
        return found

    def event(self, name: str = "event") -> dict[str, str]:
        """The next frame of that name; others are passed over."""
        while (found := self.frame()).get("event") != name:
            assert found, "the stream has ended"
        return found

    def close(self) -> None:
        """Leave."""
        self._connection.close()
        self.response.close()


def _send(
    hub: RunningHub, method: str, path: str, headers: dict[str, str], body: bytes | None, buffer: int = 0
) -> tuple[HTTPConnection, HTTPResponse]:
    place = urlsplit(hub.url)
    assert place.hostname is not None
    connection = HTTPConnection(place.hostname, place.port, timeout=DEADLINE_S)
    if buffer:
        line = socket.socket()
        line.settimeout(DEADLINE_S)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)  # before the window is agreed upon
        line.connect((place.hostname, place.port))
        connection.sock = line
    connection.request(method, path, body, headers)
    return connection, connection.getresponse()
