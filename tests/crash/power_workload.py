"""What is done while the disk is recorded, and what must be true of every image of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery.heal import heal, open_healed
from holdfast.store.store import Store
from tests.crash.support import (
    OWNER,
    RULES,
    Row,
    as_line,
    check_mirrors,
    check_sound,
    essence,
    mirror_rows,
    place,
    read_database,
    say,
)

State = dict[str, Row]  # session -> its essence


class Workload:
    """Calls on a store one after the other, each acknowledged; the state after each."""

    def __init__(self, store: Store, home: Home, ack: Callable[[int], None], rng: random.Random):
        self._store = store
        self._home = home
        self._ack = ack
        self._rng = rng
        self.states: list[State] = [{}]

    async def call(self, *calls: Awaitable[object]) -> None:
        """One step: calls at once, each on a session of its own, answered all together."""
        await asyncio.gather(*calls)
        self._ack(len(self.states))
        self.states.append(state(self._home))
        if self._rng.random() < 0.3:
            await self._store.with_mirrors(lambda files: None)
        if self._rng.random() < 0.15:
            await asyncio.sleep(0.015)  # quiet: mirrors are synced and sealed

    async def run(self, rounds: int) -> None:
        """Everything the contract has, on four sessions."""
        store = self._store
        names: list[str] = []

        async def create(i: int) -> None:
            names.append((await store.create_session("claude", key=f"k{i}", metadata={"i": i})).id)

        for i in range(4):
            await self.call(create(i))
        a, b, c, d = names
        await self.call(store.enqueue(a, "go"))
        (task,) = await store.tasks()
        await self.call(store.claim(task.id, 0, OWNER, 60.0))
        offset = version = 0
        for number in range(1, rounds + 1):
            offset += self._rng.randint(1, 99)
            size = self._rng.choice((10, 10, 200, 9000))
            events = [say("x" * size, f"{number}.{i}") for i in range(self._rng.randint(1, 4))]
            feed = Commit(a, events, task=task.id, generation=1, spool=offset)
            match number % 8:
                case 1:
                    version += 1
                    await self.call(store.commit(feed), store.patch_metadata(b, {"n": number}, version))
                case 2:
                    await self.call(store.commit(feed), store.see_token(b, "claude", f"native-{number}"))
                case 3:
                    await self.call(store.delete(c, "tester", f"reason {number}"))
                case 4:
                    await self.call(store.commit(feed), store.archive(b, "tester", f"reason {number}"))
                case 5:
                    await self.call(store.restore(c, "tester"), store.renew(task.id, 1, 60.0))
                case 6:
                    await self.call(store.commit(feed), store.unarchive(b, "tester"))
                case 7:
                    said = Commit(c, [say(f"c {number}")])
                    await self.call(store.commit(said), store.commit(Commit(b, [say("b")])))
                case _:
                    await self.call(store.commit(feed))
        await self.call(store.set_status(task.id, "succeeded", generation=1))
        await self.call(store.delete(d, "tester", "for good"))


def state(home: Home) -> State:
    """All sessions as the database has them now."""
    return {name: essence(seen) for name, seen in read_database(home.database).items()}


async def check_image(home: Home, before: State, after: State) -> None:
    """The image opens and heals; each session is as acknowledged or one call further, in both copies."""
    store, report = await open_healed(place(home), home, RULES)
    try:
        assert not report.problems, report.problems
        again = await heal(store, home, place(home), deep=True)
        assert not again.findings and not again.done, f"a second heal found {again.findings}"
    finally:
        await store.close()
    sessions = read_database(home.database)
    check_sound(sessions)
    check_mirrors(home, sessions)
    for name in before:
        assert name in sessions, f"acknowledged session {name} is lost"
    for name, seen in sessions.items():
        found = essence(seen)
        if found not in (before.get(name), after.get(name)):
            raise AssertionError(_difference(name, found, before.get(name)))
        if found == before.get(name) and found["header"]["state"] == "deleted":
            lines = [as_line(name, row) for row in seen.log]
            assert mirror_rows(home.trashed(name)) == lines, f"the copy of {name} in the trash is not whole"


def _difference(name: str, found: Row, before: Row | None) -> str:
    if before is None:
        return f"{name} is there in part: {found}"
    if len(found["log"]) < len(before["log"]):
        return f"lost: {name} has {len(found['log'])} of {len(before['log'])} acknowledged records"
    parts = [part for part in before if found[part] != before[part]]
    return f"torn: {name} differs in {parts}: {found} is not {before}"
