"""`holdfast answer`."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from holdfast.cli import background, common, output, render, send, targets
from holdfast.cli.common import current_user
from holdfast.cli.open_store import open_for_change
from holdfast.store.readonly import ask


def parser(name: str) -> argparse.ArgumentParser:
    """The task, the call and the answer."""
    parser = common.parser(
        name, "Allow or deny what an agent asks for; the agent waits for the answer, also across restarts."
    )
    parser.add_argument("task", metavar="TASK", help="a task, or the key or session that it belongs to")
    parser.add_argument("answer", choices=("allow", "deny"))
    parser.add_argument("--call", metavar="CALL", help="only this one of several requests")
    return parser


def run(options: argparse.Namespace) -> int:
    """Record the answer; the process that drives the task passes it on."""
    home, location = common.home_and_location(options)
    by = current_user()
    task = ask(home, location, lambda sql: targets.task_that_asks(sql, options.task))

    def here() -> list[dict[str, Any]]:
        answered = asyncio.run(_answer(options, task, by))
        background.ensure_worker(home, location, by)
        return answered

    answered = send.via_hub(
        home, location, lambda hub: hub.answer(task, options.answer, call=options.call), here
    )
    if options.json:
        output.json_line(answered)
    else:
        for body in answered:
            output.text(f"{body['answer']}: {render.call_text(body)}")
    return 0


async def _answer(options: argparse.Namespace, task: str, by: str) -> list[dict[str, Any]]:
    from holdfast.runner import control

    home, location = common.home_and_location(options)
    async with open_for_change(home, location) as store:
        return await control.answer_permissions(store, task, options.answer, by, call=options.call)
