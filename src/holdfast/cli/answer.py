"""`holdfast answer`."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from holdfast.cli import background, options, output
from holdfast.cli.changing import changing
from holdfast.cli.who import who
from holdfast.store import reads


def parser(name: str) -> argparse.ArgumentParser:
    """Which task, which call, and what."""
    made = options.parser(name, "Answer what an agent asks for; it waits for that, also across restarts.")
    made.add_argument("task", metavar="TASK", help="an id or its beginning")
    made.add_argument("answer", choices=("allow", "deny"))
    made.add_argument("--call", metavar="CALL", help="only this one of several that wait")
    return made


def run(given: argparse.Namespace) -> int:
    """Record the answer; whoever drives the task passes it on."""
    home, location = options.place(given)
    by = who()
    answered = asyncio.run(_answer(given, by))
    background.see_to_it(home, location, by)
    if given.json:
        output.json_line(answered)
    else:
        for body in answered:
            output.text(
                f"{body['answer']}: {output.plain(body.get('name'))} {output.plain(body.get('input'))}"
            )
    return 0


async def _answer(given: argparse.Namespace, by: str) -> list[dict[str, Any]]:
    from holdfast.errors import IllegalChange
    from holdfast.model.commit import Commit
    from holdfast.model.task import ACTIVE
    from holdfast.work import requests

    home, location = options.place(given)
    async with changing(home, location) as store:
        task = await store.task(await store.query(lambda sql: reads.resolve_task(sql, given.task)))
        if task.status not in ACTIVE:
            raise IllegalChange(f"task {task.id} is {task.status}; it waits for no permission")
        asked = requests.waiting(await store.task_events(task.id, ("permission",)))
        chosen = requests.choose(asked, given.call, task.id)
        answered = []
        for event in chosen:
            said = requests.answer(event, given.answer, by)
            if (await store.commit(Commit(task.session, [said], task=task.id))).seqs:
                answered.append(said.body)
        if not answered:
            raise IllegalChange(f"somebody else has just answered what task {task.id} asked")
        return answered
