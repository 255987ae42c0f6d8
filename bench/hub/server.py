"""A hub or a bare server in a process of its own, and one connection to it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import NamedTuple
from urllib.parse import urlsplit


class Server(NamedTuple):
    """Where it listens, what lets us in, and which process it is."""

    url: str
    token: str
    pid: int

    def connected(self) -> HTTPConnection:
        """A connection that stays."""
        parts = urlsplit(self.url)
        return HTTPConnection(parts.hostname or "", parts.port, timeout=60)

    def ask(self, line: HTTPConnection, path: str, body: bytes | None = None) -> bytes:
        """One request and its answer."""
        headers = {"Authorization": f"Bearer {self.token}"}
        line.request("GET" if body is None else "POST", path, body, headers)
        answer = line.getresponse()
        said = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{path}: {answer.status} {said[:500]!r}")
        return said

    def rss(self) -> float:
        """Bytes that it has in memory."""
        with open(f"/proc/{self.pid}/status") as file:
            return next(float(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))


@contextmanager
def hub(home: str, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """`holdfast up` on a home."""
    command = [sys.executable, "-m", "holdfast", "up", "--json", "--port", "0"]
    with _running(command, {**(os.environ if env is None else env), "HOLDFAST_HOME": home}) as process:
        told = json.loads(_line(process))
        yield Server(told["url"], told["token"], process.pid)


@contextmanager
def bare(what: str) -> Iterator[Server]:
    """A bare server."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with _running([sys.executable, "-m", "bench.hub.bare", what], env) as process:
        yield Server(_line(process).strip(), "", process.pid)


@contextmanager
def _running(command: list[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()  # uvicorn would wait for readers; a hub is made to be killed
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("the server ended before it listened")
    return line


class Reader:
    """One reader of a stream, that only counts the events; see `fanning`."""

    def __init__(self, server: Server, path: str):
        self._server = server
        self._path = path
        self.events = 0

    async def connect(self) -> None:
        """Until the first word has come."""
        parts = urlsplit(self._server.url)
        self._in, self._out = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 20)
        self._out.write(
            f"GET {self._path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Authorization: Bearer {self._server.token}\r\n\r\n".encode()
        )
        await self._in.readuntil(b": hello")

    async def until(self, events: int) -> None:
        """Until so many have come in all."""
        kept = b""
        while self.events < events:
            piece = await self._in.read(1 << 20)
            if not piece:
                raise RuntimeError(f"the stream ended after {self.events} events")
            text = kept + piece
            self.events += text.count(b"event: event\n")
            kept = text[-12:] if not text.endswith(b"event: event\n") else b""

    async def piece(self) -> bytes:
        """What comes next."""
        return await self._in.read(1 << 20)

    def close(self) -> None:
        """Hang up."""
        self._out.transport.close()
