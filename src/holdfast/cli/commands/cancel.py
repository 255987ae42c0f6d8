"""`holdfast cancel`."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from holdfast.cli import background, common, output, send
from holdfast.cli.common import who
from holdfast.cli.open_store import changing

if TYPE_CHECKING:
    from holdfast.client.client import Hub
    from holdfast.home import Home
    from holdfast.store.location import Location

LEFT = "had ended; what it had left running is ended, too"
TOLD = {"cancelled": "is cancelled", "interrupted": LEFT, "failed": LEFT}


def parser(name: str) -> argparse.ArgumentParser:
    """Which task."""
    made = common.parser(name, "Stop a task: the agent is asked first, then all it started is ended.")
    made.add_argument("task", metavar="TASK", help="an id or its beginning")
    made.add_argument("--now", action="store_true", help="do not wait for the agent to stop by itself")
    return made


def run(given: argparse.Namespace) -> int:
    """Ask, and say what was asked."""
    home, location = common.place(given)
    task, status = cancel(home, location, given.task, who(), twice=given.now)
    if given.json:
        output.json_line({"task": task, "status": status})
    else:
        output.text(f"task {task} {TOLD.get(status, 'was asked to stop')}")
    return 0


def cancel(home: Home, location: Location, name: str, by: str, *, twice: bool = False) -> tuple[str, str]:
    """Ask a task to stop, whoever drives it; one that has not begun is cancelled at once."""

    def over(hub: Hub) -> tuple[str, str]:
        told = hub.cancel(name, now=twice)
        return told["id"], told["status"]

    def here() -> tuple[str, str]:
        task, status = asyncio.run(_cancel(home, location, name, by, twice))
        if status not in TOLD:
            background.see_to_it(home, location, by)
        return task, status

    return send.handed(home, location, over, here)


async def _cancel(home: Home, location: Location, name: str, by: str, twice: bool) -> tuple[str, str]:
    from holdfast.runner import control

    async with changing(home, location) as store:
        task = await control.cancel_task(store, name, by, twice=twice)
        return task.id, task.status
