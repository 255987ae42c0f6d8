"""What the contract's tests share: a few words to write with, a look at everything, and the oracle.

The oracle (`Oracle`) is the contract told once more in plain dicts. It shares no logic with the code
under test: what it knows of the rules it says itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import apsw
import msgspec

from holdfast.model.event import Event, NewEvent, Origin
from holdfast.model.session import Session, Worktree
from holdfast.model.task import Owner
from holdfast.model.token import Token
from holdfast.store.base import BaseStore
from holdfast.store.contract import Change
from holdfast.store.location import Location

OWNER = Owner(host="here", pid=7, started=12.5, boot="boot-1")
OTHER_OWNER = Owner(host="here", pid=8, started=99.0, boot="boot-1")
WORKTREE = Worktree(path="/w/t", branch="fix-1", repo_root="/w", created_at="2026-01-31T12:00:00.000000Z")


def said(text: str = "hello", record: str | None = None, kind: str = "user") -> NewEvent:
    """One line of conversation; `record` is its native record id, if it has one."""
    return NewEvent(kind, {"text": text}, origin=None if record is None else origin(record))


def origin(record: str) -> Origin:
    return Origin("claude", "native-1", record)


async def log_of(store: BaseStore, session: str) -> list[Event]:
    """All records of one session."""
    found: list[Event] = []
    while page := await store.events(session, after=found[-1].seq if found else 0):
        found += page
    return found


async def whole_log(store: BaseStore) -> list[Change]:
    """All records of all sessions, in commit order."""
    found: list[Change] = []
    cursor: str | None = None
    while True:
        page = await store.changes(cursor)
        found += page.changes
        cursor = page.cursor
        if not page.more:
            return found


async def everything(store: BaseStore) -> dict[str, Any]:
    """All that can be read of a store."""
    headers = (await store.sessions(state="all", empty=True, limit=10_000)).sessions
    return {
        "log": await whole_log(store),
        "headers": headers,
        "tokens": {h.id: await store.tokens(h.id) for h in headers},
        "tasks": {h.id: await store.tasks(session=h.id) for h in headers},
    }


@asynccontextmanager
async def nothing_changes(store: BaseStore) -> AsyncIterator[None]:
    """What happens inside leaves every log, header, token and task as it was."""
    before = await everything(store)
    yield
    assert await everything(store) == before


async def tamper(location: Location, statement: str, *values: Any) -> None:
    """Change the database behind the store's back; `?` marks a value."""
    if location.kind == "sqlite":
        db = apsw.Connection(location.address)
        try:
            db.set_busy_timeout(10_000)
            db.execute(statement, values)
        finally:
            db.close()
        return

    def in_postgres() -> None:
        from tests.postgres_server import connect

        with connect(location.address) as connection:
            connection.execute(statement.replace("?", "%s").encode(), values)

    await asyncio.to_thread(in_postgres)


async def stored_metadata(location: Location, session: str) -> str:
    """The metadata column as it is in the database."""
    query = "select cast(metadata as blob) from session where id = ?"
    if location.kind == "sqlite":
        db = apsw.Connection(location.address, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            db.set_busy_timeout(10_000)
            return bytes(db.execute(query, (session,)).fetchall()[0][0]).decode()
        finally:
            db.close()

    def in_postgres() -> str:
        from tests.postgres_server import connect

        with connect(location.address) as connection:
            ask = query.replace("?", "%s").replace("blob", "bytea")
            row = connection.execute(ask.encode(), (session,)).fetchone()
            assert row is not None
            return bytes(row[0]).decode()

    return await asyncio.to_thread(in_postgres)


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

    # --- to compare

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
        wanted = ("status", "generation", "delivery", "spool", "prompt")
        return self.tasks == {t.id: {n: msgspec.structs.asdict(t)[n] for n in wanted} for t in tasks}
