"""The least that a server can be: `python -m bench.hub.bare litestar|broadcast`, until it is killed.

`litestar` answers `/healthz`; `broadcast` sends each line that is posted to `/say` to all who read `/stream`.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import uvicorn


def litestar() -> Any:
    """One handler."""
    from litestar import Litestar, get

    @get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    return Litestar([healthz])


class Broadcast:
    """A queue for each reader."""

    def __init__(self) -> None:
        self._readers: set[asyncio.Queue[bytes]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/say":
            await self._say(receive, send)
        else:
            await self._stream(send)

    async def _say(self, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message["body"]
            more = message["more_body"]
        for line in body.split(b"\n"):
            frame = b"id: 1\nevent: event\ndata: " + line + b"\n\n"
            for reader in self._readers:
                reader.put_nowait(frame)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _stream(self, send: Any) -> None:
        mine: asyncio.Queue[bytes] = asyncio.Queue()
        self._readers.add(mine)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
        while True:
            await send({"type": "http.response.body", "body": await mine.get(), "more_body": True})


def main(what: str) -> None:
    """Serve, and say where."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        litestar() if what == "litestar" else Broadcast(),
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
    )
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1])
