"""`holdfast trust`: mark a session as sound after its last task failed or was cancelled."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from holdfast.cli import common, output, send
from holdfast.cli.common import current_user
from holdfast.cli.open_store import open_for_change


def parser(name: str) -> argparse.ArgumentParser:
    """Which session, and why."""
    parser = common.parser(name, "Mark a session as sound after its last task failed or was cancelled.")
    parser.add_argument("session", metavar="ID", help="an id, a unique prefix of it, or a key")
    parser.add_argument("--reason", default="by hand", help="the reason to record")
    return parser


def run(options: argparse.Namespace) -> int:
    """Record it; the verdict then no longer counts how the last task ended."""
    trusted = send.via_hub(
        *common.home_and_location(options),
        lambda hub: hub.trust(options.session, options.reason),
        lambda: asyncio.run(_trust(options)),
    )
    if options.json:
        output.json_line(trusted)
    else:
        output.text(
            f"{trusted['session']} is trusted after {trusted['task']}; "
            "`holdfast verdict` shows the remaining reasons"
        )
    return 0


async def _trust(options: argparse.Namespace) -> dict[str, Any]:
    from holdfast.runner.sessions import trust

    home, location = common.home_and_location(options)
    async with open_for_change(home, location) as store:
        session = await store.resolve(options.session)
        last = await trust(store, session, current_user(), options.reason)
        return {"session": session, "task": last.id, "by": current_user(), "reason": options.reason}
