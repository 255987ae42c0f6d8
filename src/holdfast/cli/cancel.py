"""`holdfast cancel`."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from holdfast.cli import background, options, output
from holdfast.cli.changing import changing
from holdfast.cli.who import who
from holdfast.store import reads

if TYPE_CHECKING:
    from holdfast.home import Home
    from holdfast.store.location import Location

LEFT = "leftovers ended"
TOLD = {"cancelled": "is cancelled", LEFT: "had ended; what it had left running is ended, too"}


def parser(name: str) -> argparse.ArgumentParser:
    """Which task."""
    made = options.parser(name, "Stop a task: the agent is asked first, then all it started is ended.")
    made.add_argument("task", metavar="TASK", help="an id or its beginning")
    made.add_argument("--now", action="store_true", help="do not wait for the agent to stop by itself")
    return made


def run(given: argparse.Namespace) -> int:
    """Ask, and say what was asked."""
    home, location = options.place(given)
    task, status = cancel(home, location, given.task, who(), twice=given.now)
    if given.json:
        output.json_line({"task": task, "status": status})
    else:
        print(f"task {task} {TOLD.get(status, 'was asked to stop')}")
    return 0


def cancel(home: Home, location: Location, name: str, by: str, *, twice: bool = False) -> tuple[str, str]:
    """Ask a task to stop, whoever drives it; one that has not begun is cancelled at once."""
    task, status = asyncio.run(_cancel(home, location, name, by, twice))
    if status not in TOLD:
        background.see_to_it(home, location, by)
    return task, status


async def _cancel(home: Home, location: Location, name: str, by: str, twice: bool) -> tuple[str, str]:
    from holdfast.errors import IllegalChange, StaleGeneration
    from holdfast.model.commit import Commit
    from holdfast.model.task import ENDED
    from holdfast.work import leftovers, requests

    async with changing(home, location) as store:
        task = await store.task(await store.query(lambda sql: reads.resolve_task(sql, name)))
        if task.status == "queued":
            try:
                task = await store.set_status(task.id, "cancelled", reason=f"by {by}")
                return task.id, "cancelled"
            except (StaleGeneration, IllegalChange):  # it has begun since, and may have ended
                task = await store.task(task.id)
        if task.status in ENDED:
            await leftovers.end(store, task, by)
            return task.id, LEFT
        wish = requests.cancel(by)
        await store.commit(Commit(task.session, [wish] * (2 if twice else 1), task=task.id))
        return task.id, task.status
