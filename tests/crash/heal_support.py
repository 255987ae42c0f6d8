"""What the tests of recovery share: a small world in a home, a photo of all of it, ways to spoil files."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import apsw

from holdfast import errors
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent, Origin
from holdfast.model.projection import View
from holdfast.model.session import Link, Worktree
from holdfast.model.task import Owner
from holdfast.recovery.findings import Report
from holdfast.recovery.heal import open_healed
from holdfast.recovery.restore import load_view
from holdfast.store.backend import OperationResult
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.sql import Sql
from holdfast.store.store import Store
from tests.conftest import REGISTRY
from tests.crash.support import scratch

RULES = REGISTRY.token_rules()
OWNER = Owner("here", 4242, 17.5, "boot")
AWKWARD = 'é\u2028\0\n"quoted" \\ 😀 }{"session":'  # what a reader of lines could stumble on
LONE = AWKWARD + "\ud800"  # half of a pair: all of its line is then written in ASCII


class World(NamedTuple):
    """The sessions that `fill` made."""

    rich: str  # everything a session can have
    archived: str
    plain: str
    deleted: str
    restored: str
    worktree: str  # nothing but a worktree

    @property
    def present(self) -> tuple[str, ...]:
        """Those that have a mirror."""
        return (self.rich, self.archived, self.plain, self.restored, self.worktree)


class Seen(NamedTuple):
    """All that a store knows of one session."""

    view: View
    lines: list[str]
    target: Any


Photo = dict[str, Any]


def say(text: str, record: str | None = None) -> NewEvent:
    """Something that an agent said."""
    origin = None if record is None else Origin("claude", "native", record)
    return NewEvent("assistant", {"text": text}, origin=origin)


async def fill(store: Store) -> World:
    """A session of every sort; queued prompts in turns, so that their order matters."""
    rich = await _rich(store)
    archived = (await store.create_session("codex", key="k:1", title="put away", metadata={"a": 1})).id
    await store.commit(Commit(archived, [say("one"), say("two")]))
    await store.see_token(archived, "codex", "c-1")
    await store.revoke_token(archived, "codex", "c-1", "resume failed")
    plain = (await store.create_session("gemini", key="k:2")).id
    await store.commit(Commit(plain, [say(AWKWARD, "r0"), say(LONE, "r1"), say(AWKWARD, "r2")]))
    await store.commit(Commit(plain, [say("the end")]))
    await store.enqueue(archived, "first in the queue")
    await store.enqueue(plain, "second in the queue")
    await store.enqueue(rich, "third in the queue")
    await store.enqueue(archived, "fourth in the queue")
    await store.archive(archived, "me", "Session crashed")
    deleted = (await store.create_session("claude", key="k:3", title="gone")).id
    await store.commit(Commit(deleted, [say("to be forgotten")]))
    await store.delete(deleted, "me", "no more")
    restored = (await store.create_session("kimi", key="k:3")).id
    await store.commit(Commit(restored, [say("back again")]))
    await store.delete(restored, "me", "too soon")
    await store.restore(restored, "me")
    tree = Worktree("/w/tree", "fix-1", "/w/repo", "2026-01-01T00:00:00.000000Z")
    worktree = (await store.create_session("opencode", worktree=tree)).id
    return World(rich, archived, plain, deleted, restored, worktree)


async def _rich(store: Store) -> str:
    tree = Worktree("/w/rich", "rich", "/w/repo", "2026-01-02T00:00:00.000000Z")
    made = await store.create_session(
        "cursor",
        key="forgejo:dev:o/r:1",
        cwd="/w/rich",
        host=store.node.id if store.node else None,
        title="Rich «title»",
        worktree=tree,
        link=Link("s000000000000000", "fork"),
        metadata={"nested": {"list": [1, 2.5, None, "x"]}, "text": AWKWARD},
    )
    await store.patch_metadata(made.id, {"nested": {"more": True}, "gone": None}, 1)
    await store.patch_metadata(made.id, {"b": [1]}, 2)
    await store.see_token(made.id, "cursor", "old", seen_in="chosen")
    await store.see_token(made.id, "cursor", "new", protocol="acp")
    for number, end in enumerate(("succeeded", "failed", "cancelled", "interrupted")):
        task = await store.enqueue(made.id, f"prompt {number} {AWKWARD}", options={"n": number})
        await store.claim(task.id, 0, OWNER, 60)
        await store.deliver(task.id, "accepted", 1)
        events = [say(f"{end} {i} {(AWKWARD, LONE)[i % 2]}", f"{number}.{i}") for i in range(4)]
        await store.commit(Commit(made.id, events, task=task.id, generation=1, spool=100 * (number + 1)))
        await store.set_status(task.id, end, generation=1, reason="so", outcome={"code": number})  # type: ignore[arg-type]
    running = await store.enqueue(made.id, "still at it", retry_of=task.id)
    await store.claim(running.id, 0, OWNER, 60)
    await store.deliver(running.id, "sent", 1)
    await store.commit(Commit(made.id, [say("on it")], task=running.id, generation=1, spool=7))
    return made.id


async def photo(store: Store) -> Photo:
    """Everything that can be asked of a store, but for the feed's numbers."""
    found: Photo = {}
    for header in (await store.sessions(state="all", empty=True, limit=10_000)).sessions:
        found[header.id] = await seen(store, header.id)
        found[f"header {header.id}"] = header
    for state in ("live", "archived", "deleted", "present", "all"):
        listed = (await store.sessions(state=state, limit=10_000)).sessions
        found[f"listed {state}"] = [header.id for header in listed]
    found["queue"] = [(task.id, task.status) for task in await store.tasks(limit=10_000)]
    return found


async def seen(store: Store, session: str) -> Seen:
    """Everything of one session."""
    lines: list[str] = []
    while page := await store.event_lines(session, after=len(lines)):
        lines += page
    try:
        target: Any = await store.resume_target(session)
    except errors.NoToken as problem:
        target = problem.code
    return Seen((await store.query(lambda sql: load_view(sql, session)))[1], lines, target)


@asynccontextmanager
async def opened(location: Location, home: Home) -> AsyncIterator[Store]:
    """The store as it is, nothing healed."""
    with quick():
        store = await open_store(location, home, RULES)
        try:
            yield store
        finally:
            await store.close()


@contextmanager
def quick() -> Iterator[None]:
    """Mirrors follow at once: nobody waits for commits that could be gathered."""
    with (
        patch("holdfast.store.mirror.thread.LAG_S", 0.001),
        patch("holdfast.store.mirror.thread.RETRY_S", 0.01),
    ):
        yield


async def made(location: Location, home: Home) -> tuple[World, Photo]:
    """A world in a store that was closed in order; for SQLite the same one every time, copied."""
    if location.kind == "sqlite":
        model, world, before = await _model()
        shutil.rmtree(home.path)
        shutil.copytree(model.path, home.path)  # with its times, which the seals know
        return world, before
    async with opened(location, home) as store:
        world = await fill(store)
        return world, await photo(store)


_made: list[tuple[Home, World, Photo]] = []


async def _model() -> tuple[Home, World, Photo]:
    if not _made:
        folder = scratch()
        atexit.register(folder.cleanup)
        home = Home(os.path.join(folder.name, "home"))
        async with opened(Location("sqlite", home.database), home) as store:
            world = await fill(store)
            before = await photo(store)
        _made.append((home, world, before))
    return _made[0]


async def healed(location: Location, home: Home, deep: bool = False) -> tuple[Report, Photo]:
    """What a start repaired, and what there is then."""
    with quick():
        store, report = await open_healed(location, home, RULES, deep=deep)
        try:
            return report, await photo(store)
        finally:
            await store.close()


async def healed_once(location: Location, home: Home, deep: bool = False) -> tuple[Report, Photo]:
    """The same, and a second start, which must find nothing to repair and change nothing."""
    report, after = await healed(location, home, deep)
    second, same = await healed(location, home, deep)
    assert (second.done, second.problems) == ([], [])
    assert [f for f in second.findings if f.action is not None] == []
    assert same == after
    return report, after


async def seal_as(store: Store, session: str, seal: str | None) -> None:
    """Let the database believe that it sealed the mirror so: the last time before a crash."""

    async def operation(sql: Sql) -> OperationResult:
        return OperationResult(await sql.run("put_seal", id=session, seal=seal))

    await store.transact(operation)


def codes(report: Report) -> list[str]:
    """What was found."""
    return [finding.code for finding in report.findings]


def read(path: str) -> bytes:
    """All of a file."""
    with open(path, "rb") as file:
        return file.read()


def write(path: str, data: bytes) -> None:
    """Make a file have that content, behind everybody's back."""
    with open(path, "wb") as file:
        file.write(data)


def mirrors(home: Home) -> dict[str, bytes]:
    """The mirror files, by name."""
    names = [name for name in os.listdir(home.sessions) if name.endswith(".jsonl")]
    return {name: read(os.path.join(home.sessions, name)) for name in names}


def quarantined(home: Home) -> dict[str, bytes]:
    """The files in quarantine, by their path in it, without the notes."""
    found = {}
    for folder, _, names in os.walk(home.quarantine):
        for name in names:
            path = os.path.join(folder, name)
            if not name.endswith("note.json"):
                found[os.path.relpath(path, home.quarantine)] = read(path)
    return found


def back_up(home: Home, path: str) -> None:
    """A consistent copy of a database that is in use."""
    source, copy = apsw.Connection(home.database), apsw.Connection(path)
    with copy.backup("main", source, "main") as backup:
        backup.step()
    copy.close()
    source.close()


def put_back(home: Home, copy: str) -> None:
    """The database is an older copy of itself again."""
    drop_database(home)
    shutil.copyfile(copy, home.database)


def drop_database(home: Home) -> None:
    """No database any more."""
    for ending in ("", "-wal", "-shm"):
        if os.path.exists(home.database + ending):
            os.unlink(home.database + ending)
