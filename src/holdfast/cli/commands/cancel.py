"""`holdfast cancel`."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from holdfast.cli import background, common, output, send, targets
from holdfast.cli.common import current_user
from holdfast.cli.open_store import open_for_change
from holdfast.store.readonly import ask

if TYPE_CHECKING:
    from holdfast.client.client import HubClient
    from holdfast.home import Home
    from holdfast.store.location import Location

LEFT = "had already ended; its leftover processes are ended too"
RESULTS = {"cancelled": "is cancelled", "interrupted": LEFT, "failed": LEFT}


def parser(name: str) -> argparse.ArgumentParser:
    """Which task."""
    parser = common.parser(
        name,
        "Stop a task: ask the agent first, then end every process it started. For a task that has ended: "
        "end its leftover processes.",
    )
    parser.add_argument(
        "task", metavar="TASK", help="a task, or a key or session: what runs there is stopped"
    )
    parser.add_argument("--now", action="store_true", help="do not wait for the agent to stop on its own")
    return parser


def run(options: argparse.Namespace) -> int:
    """Request the stop, and print the result."""
    home, location = common.home_and_location(options)
    target, behind = ask(home, location, lambda sql: targets.task_to_cancel(sql, options.task))
    task, status = cancel(home, location, target, current_user(), twice=options.now)
    if options.json:
        output.json_line({"task": task, "status": status})
    else:
        more = f"; {output.counted(behind, 'prompt')} behind it will run next" if behind else ""
        output.text(f"task {task} {RESULTS.get(status, 'is stopping')}{more}")
    return 0


def cancel(home: Home, location: Location, name: str, by: str, *, twice: bool = False) -> tuple[str, str]:
    """Ask a task to stop; one that has not started is cancelled at once."""

    def over(hub: HubClient) -> tuple[str, str]:
        task = hub.cancel(name, now=twice)
        return task["id"], task["status"]

    def here() -> tuple[str, str]:
        task, status = asyncio.run(_cancel(home, location, name, by, twice))
        if status not in RESULTS:
            background.ensure_worker(home, location, by)
        return task, status

    return send.via_hub(home, location, over, here)


async def _cancel(home: Home, location: Location, name: str, by: str, twice: bool) -> tuple[str, str]:
    from holdfast.runner import control

    async with open_for_change(home, location) as store:
        task = await control.cancel_task(store, name, by, twice=twice)
        return task.id, task.status
