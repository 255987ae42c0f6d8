"""From a byte in an agent's spool to a subscriber of the hub, beside the same bytes from a pipe."""

from __future__ import annotations

import json
import os
import tempfile
import time

from bench.hub.server import Reader, Server, hub
from bench.measure import Measured
from bench.running.latency import AGENT, CONFIG, Late, beside_a_pipe, fine_looks, lateness
from bench.running.place import Place


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    with tempfile.TemporaryDirectory() as folder, fine_looks():
        ours = Place(os.path.join(folder, "ours"), CONFIG)
        with hub(ours.home.path, ours.env) as server:
            return await beside_a_pipe(
                "byte to subscriber", quick, folder, lambda words: _late(server, ours.cwd, words)
            )


async def _late(server: Server, cwd: str, words: str) -> Late:
    """As a reader of the stream of all sessions sees it."""
    reader = Reader(server, "/api/stream")
    await reader.connect()
    wish = json.dumps({"prompt": words, "agent": AGENT, "cwd": cwd}).encode()
    server.ask(server.connected(), "/api/dispatch", wish)
    late: Late = []
    rest, count = b"", int(words.split()[0])
    while len(late) < count:
        piece = await reader.piece()
        if not piece:
            raise RuntimeError(f"the stream ended after {len(late)} of {words}")
        now = time.monotonic_ns()
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data: ") and b'"event":{' in line:
                event = json.loads(line[6:])["event"]
                if (seconds := lateness(event["kind"], event["body"], now)) is not None:
                    late.append(seconds)
    reader.close()
    return sorted(late)
