"""What the contract's tests share: a few words to write with, a look at everything, and the oracle.

The oracle (`Oracle`) is the contract told once more in plain dicts. It shares no logic with the code
under test: what it knows of the rules it says itself. `Driver` keeps it beside a real store.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from holdfast import errors
from holdfast.home import Home
from holdfast.model.event import Event, NewEvent, Origin
from holdfast.model.session import Session, Worktree
from holdfast.model.task import Owner, Task
from holdfast.model.token import Token
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.store import Store
from holdfast.store.types import ChangeFeedEntry
from tests.conftest import REGISTRY

OWNER = Owner(host="here", pid=7, started=12.5, boot="boot-1")
OTHER_OWNER = Owner(host="here", pid=8, started=99.0, boot="boot-1")
WORKTREE = Worktree(path="/w/t", branch="fix-1", repo_root="/w", created_at="2026-01-31T12:00:00.000000Z")


def said(text: str = "hello", record: str | None = None, kind: str = "user") -> NewEvent:
    """One line of conversation; `record` is its native record id, if it has one."""
    return NewEvent(kind, {"text": text}, origin=None if record is None else origin(record))


def origin(record: str) -> Origin:
    return Origin("claude", "native-1", record)


async def log_of(store: Store, session: str) -> list[Event]:
    """All records of one session."""
    found: list[Event] = []
    while page := await store.events(session, after=found[-1].seq if found else 0):
        found += page
    return found


async def whole_log(store: Store) -> list[ChangeFeedEntry]:
    """All records of all sessions, in commit order."""
    found: list[ChangeFeedEntry] = []
    cursor: str | None = None
    while True:
        page = await store.changes(cursor)
        found += page.changes
        cursor = page.cursor
        if not page.more:
            return found


async def everything(store: Store) -> dict[str, Any]:
    """All that can be read of a store."""
    headers = (await store.sessions(state="all", empty=True, limit=10_000)).sessions
    return {
        "log": await whole_log(store),
        "headers": headers,
        "tokens": {h.id: await store.tokens(h.id) for h in headers},
        "tasks": {h.id: await store.tasks(session=h.id) for h in headers},
    }


@asynccontextmanager
async def nothing_changes(store: Store) -> AsyncIterator[None]:
    """What happens inside leaves every log, header, token and task as it was."""
    before = await everything(store)
    yield
    assert await everything(store) == before


class Oracle:
    """One session as the contract says it must be."""

    def __init__(self, agent: str, key: str | None, metadata: dict[str, Any]):
        self.agent = agent
        self.key = key
        self.state = "live"
        self.archived = False
        self.metadata = metadata
        self.version = 1
        self.kinds = ["session"]
        self.origins: set[str] = set()
        self.tokens: list[dict[str, Any]] = []
        self.tasks: dict[str, dict[str, Any]] = {}
        self.order: list[str] = []  # of the tasks, as queued

    # --- the log

    def append(self, events: list[tuple[str, str | None]]) -> int:
        """Events as (kind, record id); how many of them were dropped."""
        dropped = 0
        for kind, record in events:
            if record in self.origins:
                dropped += 1
                continue
            if record is not None:
                self.origins.add(record)
            self.kinds.append(kind)
        return dropped

    # --- tokens

    def current(self) -> dict[str, Any] | None:
        return next((t for t in self.tokens if t["status"] == "current"), None)

    def see(self, native_id: str, protocol: str | None) -> bool:
        """Whether that is news."""
        now = self.current()
        if now is None:
            revoked = [t for t in self.tokens if t["status"] == "revoked"]
            if revoked and revoked[-1]["id"] == native_id:
                return False  # a revoked token is not taken back by being seen
        elif now["id"] == native_id:
            if protocol in (None, now["protocol"]):
                return False
            if now["protocol"] is None:
                now["protocol"] = protocol
                self.kinds.append("token")
                return True
        if now is not None:
            now["status"] = "superseded"
        self.tokens.append({"id": native_id, "protocol": protocol, "status": "current"})
        self.kinds.append("token")
        return True

    def revoke(self, native_id: str) -> str:
        return self._restatus(native_id, "current", "revoked")

    def reinstate(self, native_id: str) -> str:
        return self._restatus(native_id, "revoked", "current")

    def _restatus(self, native_id: str, old: str, new: str) -> str:
        """`done`, `same`, or the code of the refusal."""
        of_id = [t for t in self.tokens if t["id"] == native_id]
        if not of_id:
            return "not_found"
        with_old = [t for t in of_id if t["status"] == old]
        if not with_old:
            return "same" if of_id[-1]["status"] == new else "illegal_change"
        if new == "current" and self.current() is not None:
            return "illegal_change"
        with_old[-1]["status"] = new
        self.kinds.append("token")
        return "done"

    # --- tasks

    def active(self) -> list[str]:
        return [name for name, task in self.tasks.items() if task["status"] in ("running", "unreachable")]

    def same_header(self, header: Session) -> bool:
        messages = [k for k in self.kinds if k in ("user", "assistant", "thinking")]
        return (
            (header.agent, header.key, header.state, header.metadata, header.version)
            == (self.agent, self.key, self.state, self.metadata, self.version)
            and (header.events, header.messages, header.tasks)
            == (len(self.kinds), len(messages), len(self.tasks))
            and (header.archive is not None) == self.archived
            and (header.deletion is not None) == (self.state == "deleted")
        )

    def same_lineage(self, tokens: list[Token]) -> bool:
        return self.tokens == [
            {"id": t.native_id, "protocol": t.protocol, "status": t.status} for t in tokens
        ]

    def same_tasks(self, tasks: list[Any]) -> bool:
        wanted = ("status", "generation", "delivery", "spool", "prompt", "waiting_for")
        return self.tasks == {t.id: {n: msgspec.structs.asdict(t)[n] for n in wanted} for t in tasks}


class Driver(RuleBasedStateMachine):
    """Two openers of one store and the oracle."""

    def __init__(self, loop: asyncio.AbstractEventLoop, location: Location, home: Home):
        super().__init__()
        self.loop = loop
        self.place = (location, home, REGISTRY.token_rules())
        self.stores: list[Store] = []
        self.model: dict[str, Oracle] = {}
        self.touched: set[str] = set()
        self.steps = 0
        self.mark = os.urandom(4).hex()  # the database is shared with the examples before

    def run(self, answer: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(answer)

    def refused(self, answer: Coroutine[Any, Any, Any], code: str) -> None:
        try:
            self.run(answer)
        except errors.HoldfastError as problem:
            assert problem.code == code, (problem.code, problem.message)
        else:
            raise AssertionError(f"this should have been refused: {code}")

    @initialize()
    def open(self) -> None:
        self.stores = [self.run(open_store(*self.place)) for _ in range(2)]

    def store(self, pick: int) -> Store:
        return self.stores[pick % 2]

    def pick(self, pick: int) -> tuple[str, Oracle]:
        if not self.model:
            self.begin()
        session = list(self.model)[pick % len(self.model)]
        self.touched.add(session)
        return session, self.model[session]

    def pick_task(self, pick: int) -> tuple[str, Oracle, str, dict[str, Any]]:
        having = [(s, m) for s, m in self.model.items() if m.tasks]
        if not having:
            session, model = self.pick(pick)
            if model.state == "deleted":
                session, model = self.begin()
            self.queue(session, model)
            having = [(session, model)]
        session, model = having[pick % len(having)]
        self.touched.add(session)
        task = list(model.tasks)[pick % len(model.tasks)]
        return session, model, task, model.tasks[task]

    def queue(self, session: str, model: Oracle) -> None:
        task: Task = self.run(self.stores[0].enqueue(session, f"prompt {len(model.tasks)}"))
        model.kinds.append("task")
        fresh = {"status": "queued", "generation": 0, "delivery": "waiting", "spool": 0, "waiting_for": None}
        model.tasks[task.id] = {**fresh, "prompt": f"prompt {len(model.tasks)}"}
        model.order.append(task.id)

    def holder(self, key: str | None) -> bool:
        return key is not None and any(m.key == key and m.state == "live" for m in self.model.values())

    def begin(self) -> tuple[str, Oracle]:
        session: str = self.run(self.stores[0].create_session("claude")).id
        self.model[session] = Oracle("claude", None, {})
        return session, self.model[session]

    def rivals(self, session: str) -> bool:
        """Whether a claim on that session would drive a conversation that is driven already."""
        mine = self.model[session].current()
        for other, model in self.model.items():
            theirs = model.current()
            shared = mine is not None and theirs is not None and mine["id"] == theirs["id"]
            if model.active() and (other == session or shared):
                return True
        return False

    def claimed(self, model: Oracle, state: dict[str, Any]) -> None:
        state["status"], state["generation"] = "running", state["generation"] + 1
        state["waiting_for"] = None
        model.kinds.append("task")

    async def look(self, store: Store, sessions: Iterable[str]) -> None:
        listed = {h.id: h for h in (await store.sessions(state="all", empty=True, limit=1000)).sessions}
        for session, model in self.model.items():
            assert model.same_header(listed[session]), (listed[session], vars(model))
        for session in sessions:
            model = self.model[session]
            assert listed[session] == await store.session(session)
            assert model.same_lineage(await store.tokens(session))
            tasks = await store.tasks(session=session)
            assert model.same_tasks(tasks) and [t.id for t in tasks] == model.order
            log = await log_of(store, session)
            assert [e.kind for e in log] == model.kinds
            assert [e.seq for e in log] == list(range(1, len(log) + 1))

    @invariant()
    def all_is_as_the_oracle_says(self) -> None:
        """Every header, and all of what this step has touched; the rest is looked at in the end."""
        if self.stores:
            self.steps += 1
            self.run(self.look(self.stores[self.steps % 2], self.touched))
            self.touched.clear()

    def teardown(self) -> None:
        async def leave() -> None:
            """Nothing runs or waits in the next example that this one began."""
            for session, model in self.model.items():
                for task in await self.stores[0].tasks(session=session):
                    if task.id in model.active():
                        await self.stores[0].set_status(task.id, "failed", generation=task.generation)
                if model.state != "deleted":
                    await self.stores[0].delete(session, "test", "done")
            for store in self.stores:
                await store.close()

        try:
            for store in self.stores:
                self.run(self.look(store, self.model))
        finally:
            self.run(leave())
