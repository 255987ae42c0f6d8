"""A home to work in, and the person who queues tasks there and waits for them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.model.event import Event
from holdfast.model.task import ENDED
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.store import Store


class Place:
    """A home, a folder to work in, and what agents find in their environment."""

    def __init__(self, folder: str, config: str = ""):
        self.home = Home(os.path.join(folder, "home"))
        self.home.make()
        with open(self.home.config, "w") as file:
            file.write(config)
        self.cwd = os.path.join(folder, "work")
        os.makedirs(self.cwd)
        if shutil.which("git"):  # where agents work as a rule
            subprocess.run(["git", "init", "-q", self.cwd], check=True)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")},
            "HOLDFAST_HOME": self.home.path,
            "HOLDFAST_DEMO_HOME": os.path.join(folder, "demo"),
        }

    @asynccontextmanager
    async def store(self) -> AsyncIterator[Store]:
        """Its store, opened here too."""
        location = Location("sqlite", self.home.database)
        store = await open_store(location, self.home, AgentRegistry().token_rules())
        try:
            yield store
        finally:
            await store.close()


async def run(
    store: Store,
    agent: str,
    prompts: list[str],
    cwd: str,
    heard: Callable[[Event], None] = lambda _: None,
) -> None:
    """Queue a task for each prompt, all at once, and wait until they have succeeded."""
    cursor = await store.cursor()

    async def queue(prompt: str) -> str:
        session = await store.create_session(agent, cwd=cwd)
        return (await store.enqueue(session.id, prompt)).id

    waiting = set(await asyncio.gather(*map(queue, prompts)))
    async for news in store.follow(cursor):
        for change in news.changes:
            heard(change.event)
        for task in {c.event.task for c in news.changes if c.event.kind == "task"} & waiting:
            now = await store.task(str(task))
            if now.status in ENDED:
                if now.status != "succeeded":
                    raise RuntimeError(f"{now.id} {now.status}: {now.reason}")
                waiting.discard(now.id)
        if not waiting:
            return
