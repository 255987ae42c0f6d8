"""A hub like that of `holdfast up`, but an odd one; the rest is from the environment.

`odd_hub.py impatient SECONDS`: cuts off a reader who is too slow after so long.
`odd_hub.py short FILE`: it cannot start a process as long as there is that file.
`odd_hub.py failing FILE`: its worker fails as long as there is that file.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import subprocess
import sys
from typing import Any

import uvloop

from holdfast.home import Home
from holdfast.hub.lifecycle import Hire, HubLifecycle
from holdfast.hub.server import HttpServer
from holdfast.hub.state import HubState
from holdfast.hub.streaming.feed import Feed
from holdfast.runner.context import Context
from holdfast.runner.worker import Worker
from holdfast.settings import HubSettings
from holdfast.spool.task_dir import Spool
from holdfast.store.location import Location

LOOK_S = 0.01


class Failing(Worker):
    """A worker with a fault that nobody has foreseen."""

    def __init__(self, context: Context, path: str):
        super().__init__(context)
        self._path = path

    async def serve(self, *, forever: bool) -> None:
        """Work until there is the file."""
        working = asyncio.create_task(super().serve(forever=forever))
        try:
            while not os.path.exists(self._path):  # noqa: ASYNC110 - nobody tells of a file
                await asyncio.sleep(LOOK_S)
            raise ZeroDivisionError("nobody has foreseen this")
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


def starve(path: str) -> None:
    """Let every launch fail as fork does when there are too many processes."""
    start = Spool.start

    def fail(self: Spool, *given: Any, **more: Any) -> subprocess.Popen[bytes]:
        if os.path.exists(path):
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return start(self, *given, **more)

    Spool.start = fail  # type: ignore[method-assign]


def tell(door: HttpServer, _: HubState) -> None:
    """As `holdfast up --json` does."""
    print(json.dumps({"url": door.url, "token": door.token}), flush=True)


async def main(how: str, given: str) -> None:
    """Until it is killed."""
    home = Home(os.environ["HOLDFAST_HOME"])
    feed = Feed(float(given)) if how == "impatient" else Feed()
    hire: Hire = Worker if how != "failing" else lambda context: Failing(context, given)
    if how == "short":
        starve(given)
    hub = HubState(home, Location("sqlite", home.database), dict(os.environ), "test", feed)
    await HubLifecycle(hub, HubSettings(port=0), tell, hire).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(*sys.argv[1:]))
