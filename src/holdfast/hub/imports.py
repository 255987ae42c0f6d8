"""Sessions that agents had without us: how many there are, and adopting them in the background."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping

import msgspec

from holdfast import errors
from holdfast.agents.base import Agent
from holdfast.hub import subcommand
from holdfast.hub.state import HubState
from holdfast.model.event import Event

log = logging.getLogger(__name__)


class ImportableAgent(msgspec.Struct, frozen=True):
    """How many sessions of an agent are not here yet."""

    agent: str
    sessions: int


class ImportProgress(msgspec.Struct):
    """How far an import has come."""

    agent: str
    done: int
    of: int
    problems: list[str]
    running: bool


class ImportService:
    """The one import that may run."""

    def __init__(self, hub: HubState):
        self.progress: ImportProgress | None = None
        self._hub = hub
        self._job: asyncio.Task[None] | None = None
        hub.feed.hear(self._heard)

    async def adoptable(self) -> list[ImportableAgent]:
        """For each agent that keeps sessions here; the look may be a minute old."""
        kept = self._hub.adoptable.get("")
        if kept is None:
            context = self._hub.context
            found = []
            for agent in context.registry.agents:
                if agent.history is None:
                    continue
                env = {**context.env, **context.settings.of(agent.name).env}
                there = await asyncio.to_thread(_native_ids, agent, env)
                if missing := there - await context.store.native_ids(agent.name):
                    found.append((agent.name, len(missing)))
            kept = self._hub.adoptable.keep("", found)
        return [ImportableAgent(name, count) for name, count in kept]

    async def start(self, name: str) -> ImportProgress:
        """Begin to adopt an agent's sessions; Refused while an import runs."""
        agent = self._hub.context.registry.get(name)
        if agent.history is None:
            raise errors.NotFound(f"Holdfast does not know how {agent.title} keeps its history")
        if self.progress is not None and self.progress.running:
            raise errors.Refused(f"the sessions of {self.progress.agent} are being adopted just now")
        self.progress = made = ImportProgress(agent.name, 0, 0, [], True)  # from now on nobody else begins
        try:
            of = {each.agent: each.sessions for each in await self.adoptable()}
        except BaseException:
            made.running = False
            raise
        made.of = of.get(agent.name, 0)
        self._job = asyncio.create_task(self._run(made))
        return made

    async def stop(self) -> None:
        """End what runs; what it has adopted stays, and the rest can be adopted later."""
        if self._job is not None:
            self._job.cancel()
            await asyncio.gather(self._job, return_exceptions=True)

    async def _run(self, progress: ImportProgress) -> None:
        try:
            came = await subcommand.run(self._hub, "import", progress.agent)
            progress.done = sum(bool(one["new"]) for one in came["adopted"])
            progress.of = max(progress.of, progress.done)
            progress.problems += [f"{one['path']}: {one['message']}" for one in came["failed"]]
        except errors.HoldfastError as problem:
            log.warning("importing %s: %s", progress.agent, problem.message)
            progress.problems.append(problem.message)
        finally:
            progress.running = False
            self._hub.adoptable.forget()

    def _heard(self, _: str, event: Event) -> None:
        """An imported session's first record says where it is from."""
        progress, body = self.progress, event.body
        if progress is None or not progress.running or event.kind != "session" or body.get("op") != "create":
            return
        metadata = body.get("metadata")
        if body.get("agent") == progress.agent and isinstance(metadata, dict) and "imported_from" in metadata:
            progress.done += 1
            progress.of = max(progress.of, progress.done)


def _native_ids(agent: Agent, env: Mapping[str, str]) -> set[str]:
    assert agent.history is not None
    reader = agent.history()
    root = reader.root(env)
    try:
        if not os.path.exists(root):
            return set()
        ids = (place.native_id for place in reader.sessions(root))
        return {native_id for native_id in ids if agent.is_native_id(native_id)}
    except (OSError, errors.HoldfastError) as problem:
        log.warning("the store of %s cannot be read: %s", agent.name, problem)
        return set()
