"""Events to a thousand subscribers, beside a bare broadcast of the same bytes on uvicorn."""

from __future__ import annotations

import asyncio
import os
import resource
import tempfile
import time

from bench.append import TEXT, Running
from bench.hub.server import Reader, Server, bare, hub
from bench.measure import Measured, compare
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent

BATCH = 10  # events a commit


async def run(quick: bool) -> list[Measured]:
    """Seconds a delivery; the ratio is that of deliveries a second."""
    subscribers, count = (200, 100) if quick else (1000, 200)
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(usual[1], 3 * subscribers + 500), usual[1]))
    with tempfile.TemporaryDirectory() as folder:
        said = await Running.start(folder, sessions=0)
        session = (await said.store.create_session("demo")).id
        with hub(os.path.join(folder, "home")) as ours, bare("broadcast") as theirs:
            mine = await _join(ours, f"/api/sessions/{session}/stream?after=1", subscribers)
            other = await _join(theirs, "/stream", subscribers)
            line = theirs.connected()
            frame = b'{"session":"%s","event":{"seq":1,"kind":"assistant","body":{"text":"%s"},"at":"x"}}'
            body = b"\n".join([frame % (session.encode(), TEXT.encode())] * count)

            async def commit() -> None:
                for _ in range(count // BATCH):
                    event = NewEvent("assistant", {"text": TEXT})
                    await said.store.commit(Commit(session, [event] * BATCH))

            async def say() -> None:
                await asyncio.to_thread(theirs.ask, line, "/say", body)

            async def timed(readers: list[Reader], speak: object) -> float:
                begun = time.perf_counter()
                wanted = readers[0].events + count
                assert callable(speak)
                await asyncio.gather(speak(), *[reader.until(wanted) for reader in readers])
                return (time.perf_counter() - begun) / count / len(readers)

            result = await compare(
                f"a delivery to one of {subscribers:,} subscribers",
                lambda: timed(mine, commit),
                "a bare broadcast's",
                lambda: timed(other, say),
                rounds=3 if quick else 7,
                budget="≥ 0.7",
            )
            for reader in mine + other:
                reader.close()
        await said.store.close()
    return [result]


async def _join(server: Server, path: str, count: int) -> list[Reader]:
    readers = [Reader(server, path) for _ in range(count)]
    for some in range(0, count, 100):
        await asyncio.gather(*[reader.connect() for reader in readers[some : some + 100]])
    return readers
