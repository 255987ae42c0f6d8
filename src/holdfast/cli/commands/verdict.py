"""`holdfast verdict`: show whether a session is safe to resume, and why."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from holdfast import config, settings
from holdfast import node as nodes
from holdfast.agents.discovery import find, version
from holdfast.agents.registry import AgentRegistry
from holdfast.cli import common, output
from holdfast.home import Home
from holdfast.model.event import Event
from holdfast.model.session import Session
from holdfast.model.task import OpenTask, Task
from holdfast.model.token import Token
from holdfast.resume.facts import NativeLocation, gather
from holdfast.resume.verdict import Verdict, judge
from holdfast.store import reads, rows
from holdfast.store.location import Location
from holdfast.store.readonly import ask
from holdfast.store.rows import as_event
from holdfast.store.sql import Sql

T = TypeVar("T")


def parser(name: str) -> argparse.ArgumentParser:
    """Which session."""
    parser = common.parser(name, "Show whether a session is safe to resume, and why. Changes nothing.")
    parser.add_argument("session", metavar="ID_OR_KEY", help="an id, a unique prefix of it, or a key")
    parser.add_argument("--fork", action="store_true", help="prefer a copy to a fresh start")
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the verdict and its reasons."""
    home, location = common.home_and_location(options)
    found = asyncio.run(verdict(home, location, options.session, fork=options.fork, whole=True))
    if options.json:
        output.json_line(msgspec.to_builtins(found))
        return 0
    output.text(f"{found.action}  session {found.session}, token {found.token or 'none'}")
    for reason in found.reasons:
        output.text(f"  {reason.code}: {output.plain(reason.text)}")
    return 0


async def verdict(
    home: Home, location: Location, name: str, *, fork: bool = False, whole: bool = False
) -> Verdict:
    """The verdict on a session; `whole`: with the agent's version, which is slow to read."""
    reading = ReadOnlyStore(home, location)
    session = await reading.answer(lambda sql: reads.resolve(sql, name))
    written = config.load(home)
    agent = AgentRegistry.from_config(written.get("agents", {})).get((await reading.session(session)).agent)
    env = {**os.environ, **settings.read(written).of(agent.name).env}
    facts = await gather(
        reading,
        agent,
        NativeLocation(home, env, nodes.read(home, private=location.kind == "sqlite")),
        session,
    )
    if whole and (program := find(agent, written.get("agents", {}).get(agent.name, {}), os.environ)):
        facts = msgspec.structs.replace(facts, version=version(program))
    return judge(facts, fork=fork)


class ReadOnlyStore:
    """A store that is only read, for facts."""

    def __init__(self, home: Home, location: Location):
        self._place = home, location

    async def answer(self, question: Callable[[Sql], Awaitable[T]]) -> T:
        """Ask in one consistent state."""
        home, location = self._place
        if location.kind == "postgres":
            from holdfast.store.postgres.readonly import ask_once

            return await ask_once(location.address, question)
        return ask(home, location, question)

    async def session(self, session: str) -> Session:
        """A header."""
        return rows.as_session(await self.answer(lambda sql: reads.session(sql, session)))

    async def tokens(self, session: str) -> list[Token]:
        """The lineage."""
        return [rows.as_token(row) for row in await self.answer(lambda sql: reads.tokens(sql, session))]

    async def task(self, task: str) -> Task:
        """One task."""
        return rows.as_task(await self.answer(lambda sql: reads.task(sql, task)))

    async def open_tasks(self, session: str) -> list[OpenTask]:
        """The tasks of a session that have not ended."""
        found = await self.answer(lambda sql: reads.open_tasks(sql, session))
        return [msgspec.convert(row, OpenTask) for row in found]

    async def started_tasks(self, session: str, *, but: str = "", limit: int = 1) -> list[Task]:
        """The last tasks of a session that reached the agent, or may have; the latest first."""
        found = await self.answer(lambda sql: reads.started_tasks(sql, session, but=but, limit=limit))
        return [rows.as_task(view) for view in found]

    async def has_unsuccessful(self, session: str) -> bool:
        """Whether any task of a session was interrupted, cancelled or failed."""
        return await self.answer(lambda sql: reads.has_unsuccessful(sql, session))

    async def key_holder(self, key: str) -> str | None:
        """The live session that has the key."""
        return await self.answer(lambda sql: reads.key_holder(sql, key))

    async def events(self, session: str, after: int = 0, limit: int = reads.PAGE) -> list[Event]:
        """A page of its log."""
        return [as_event(row) for row in await self.answer(lambda sql: reads.log(sql, session, after, limit))]
