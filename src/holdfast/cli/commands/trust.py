"""`holdfast trust`: somebody has looked, and found a session sound whose last task did not end well."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from holdfast.cli import common, output, send
from holdfast.cli.common import who
from holdfast.cli.open_store import changing


def parser(name: str) -> argparse.ArgumentParser:
    """Which session, and why."""
    made = common.parser(name, "Trust a session again whose last task was cancelled or failed.")
    made.add_argument("session", metavar="ID", help="an id, its beginning, or a key")
    made.add_argument("--reason", default="by hand", help="kept with it")
    return made


def run(given: argparse.Namespace) -> int:
    """Record it; the verdict then no longer counts how the last task ended."""
    told = send.handed(
        *common.place(given),
        lambda hub: hub.trust(given.session, given.reason),
        lambda: asyncio.run(_trust(given)),
    )
    if given.json:
        output.json_line(told)
    else:
        output.text(
            f"{told['session']} is trusted after {told['task']}; see `holdfast verdict` for what else counts"
        )
    return 0


async def _trust(given: argparse.Namespace) -> dict[str, Any]:
    from holdfast.runner.sessions import trust

    home, location = common.place(given)
    async with changing(home, location) as store:
        session = await store.resolve(given.session)
        last = await trust(store, session, who(), given.reason)
        return {"session": session, "task": last.id, "by": who(), "reason": given.reason}
