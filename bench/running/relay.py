"""What a spool is measured against: the agent's lines from a pipe into the same store: `… relay HOME`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

from bench.running.helper import serve
from bench.running.latency import AGENT, PROGRAM
from holdfast.agents import acp
from holdfast.agents.driver import AgentJob
from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.model.changes import SetStatus
from holdfast.model.commit import Commit, Entry
from holdfast.model.task import Task
from holdfast.process import identity
from holdfast.spool.tail import Splitter
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.store import Store
from tests.support.store_calls import claim_next

LOOK_S = 0.02


async def work(store: Store) -> None:
    """Take whatever is queued, one after the other."""
    while True:
        claimed = await claim_next(store, identity.me("here"), 3600)
        if claimed is not None:
            await relay(store, claimed)
        await asyncio.sleep(LOOK_S)


async def relay(store: Store, claimed: Task) -> None:
    """One task: pass on every line, commit what it brings."""
    task = claimed.id
    job = AgentJob(
        agent=AGENT, session=claimed.session, task=task, prompt=claimed.prompt, cwd="/", program=()
    )
    driver = acp.make_driver(job)
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.writelines(driver.start_messages().sends)
    lines = Splitter()

    async def commit(entries: list[Entry]) -> None:
        await store.commit(
            Commit(claimed.session, entries, task=task, generation=claimed.generation, spool=lines.offset)
        )

    while driver.final is None:
        outs = [driver.on_line(line.data or b"") for line in lines.feed(await process.stdout.read(1 << 16))]
        entries: list[Entry] = [entry for out in outs for entry in out.entries]
        if entries:
            await commit(entries)
        for out in outs:
            process.stdin.writelines(out.sends)
    process.stdin.close()
    await process.wait()
    await commit([SetStatus(status="succeeded")])


async def main(path: str) -> None:
    """Relay until stdin ends."""
    home = Home(path)
    store = await open_store(Location("sqlite", home.database), home, AgentRegistry().token_rules())
    working = asyncio.create_task(work(store))
    await serve({})
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
