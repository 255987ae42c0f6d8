"""A worker in a process of its own, as `holdfast run` makes it, but it stays: `… hub HOME`."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

from bench.running.helper import serve
from holdfast.home import Home
from holdfast.runner import service
from holdfast.runner.worker import Worker
from holdfast.store.location import Location


async def main(path: str) -> None:
    """Work until stdin ends."""
    home = Home(path)
    async with service.opened(home, Location("sqlite", home.database), dict(os.environ)) as context:
        worker = Worker(context)
        await worker.adopt()
        working = asyncio.create_task(worker.serve(forever=True))
        await serve({})
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
