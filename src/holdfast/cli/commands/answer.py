"""`holdfast answer`."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from holdfast.cli import background, common, output, render, send
from holdfast.cli.common import who
from holdfast.cli.open_store import changing


def parser(name: str) -> argparse.ArgumentParser:
    """Which task, which call, and what."""
    made = common.parser(name, "Answer what an agent asks for; it waits for that, also across restarts.")
    made.add_argument("task", metavar="TASK", help="an id or its beginning")
    made.add_argument("answer", choices=("allow", "deny"))
    made.add_argument("--call", metavar="CALL", help="only this one of several that wait")
    return made


def run(given: argparse.Namespace) -> int:
    """Record the answer; whoever drives the task passes it on."""
    home, location = common.place(given)
    by = who()

    def here() -> list[dict[str, Any]]:
        answered = asyncio.run(_answer(given, by))
        background.see_to_it(home, location, by)
        return answered

    answered = send.handed(
        home, location, lambda hub: hub.answer(given.task, given.answer, call=given.call), here
    )
    if given.json:
        output.json_line(answered)
    else:
        for body in answered:
            output.text(f"{body['answer']}: {render.call(body)}")
    return 0


async def _answer(given: argparse.Namespace, by: str) -> list[dict[str, Any]]:
    from holdfast.runner import control

    home, location = common.place(given)
    async with changing(home, location) as store:
        return await control.answer_permissions(store, given.task, given.answer, by, call=given.call)
