"""A hub like that of `holdfast up`, but one that cuts off a reader who is too slow after SECONDS.

`impatient_hub.py SECONDS`, with the rest from the environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

import uvloop

from holdfast.home import Home
from holdfast.hub.door import Door
from holdfast.hub.feed import Feed
from holdfast.hub.hub import Hub
from holdfast.hub.life import Life
from holdfast.hub.settings import HubSettings
from holdfast.store.location import Location


def tell(door: Door, _: Hub) -> None:
    """As `holdfast up --json` does."""
    print(json.dumps({"url": door.url, "token": door.token}), flush=True)


async def main(stuck_s: float) -> None:
    """Until it is killed."""
    home = Home(os.environ["HOLDFAST_HOME"])
    location = Location("sqlite", home.database)
    hub = Hub(home, location, dict(os.environ), "test", Feed(stuck_s))
    await Life(hub, HubSettings(port=0), tell).run()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(float(sys.argv[1])))
