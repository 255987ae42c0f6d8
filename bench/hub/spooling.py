"""From a byte in an agent's spool to a subscriber of the hub, beside the same bytes from a pipe."""

from __future__ import annotations

import json
import os
import tempfile
import time

from bench.hub.server import Reader, Server, hub
from bench.measure import Measured, in_turns
from bench.running.helper import helper
from bench.running.latency import AGENT, PROGRAM, Late, fine_looks, from_store, rows
from bench.running.place import Place


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    config = f"[agents.{AGENT}]\ncommand = {json.dumps(PROGRAM)}\n"
    results = []
    with tempfile.TemporaryDirectory() as folder, fine_looks():
        ours, pipe = Place(os.path.join(folder, "ours"), config), Place(os.path.join(folder, "pipe"), config)
        with hub(ours.home.path, ours.env) as server:
            async with pipe.store() as piped, helper("relay", pipe.home.path, env=pipe.env):
                for rate, seconds, rounds in (
                    ((20, 3, 1), (500, 2, 1)) if quick else ((20, 10, 3), (500, 4, 3))
                ):
                    words = f"{rate * seconds} {rate}"
                    pairs = await in_turns(
                        lambda words=words: _late(server, ours.cwd, words),  # type: ignore[misc]
                        lambda words=words: from_store(piped, pipe.cwd, words),  # type: ignore[misc]
                        rounds,
                    )
                    results += rows(f"byte to subscriber, {rate} lines/s", pairs)
    return results


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
                if event["kind"] in ("tool_progress", "tool_summary"):
                    written = event["body"]["input" if event["kind"] == "tool_progress" else "output"]
                    late.append((now - int(written)) / 1e9)
    reader.close()
    return sorted(late)
