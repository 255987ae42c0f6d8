"""Headers: lists and their filters, paging, and that looking neither loads a log nor writes."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import apsw
import msgspec
import pytest

from holdfast import errors
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.session import Link, Session
from holdfast.store.location import Location
from holdfast.store.sqlite import store as sqlite_store
from holdfast.store.sqlite.connection import open_reader
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.store import Store
from tests.support.store_model import OWNER, WORKTREE, log_of, said, whole_log


async def spoken(store: Store, agent: str = "claude", **given: Any) -> str:
    """A session that is not empty."""
    session = await store.create_session(agent, **given)
    await store.commit(Commit(session.id, [said()]))
    return session.id


async def listed(store: Store, **filters: Any) -> list[str]:
    return [header.id for header in (await store.sessions(**filters)).sessions]


async def test_the_latest_comes_first(store: Store) -> None:
    first, second, third = [await spoken(store) for _ in range(3)]
    assert await listed(store) == [third, second, first]
    await store.commit(Commit(first, [said("again")]))
    assert await listed(store) == [first, third, second]


async def test_a_list_shows_the_same_headers_as_a_look_at_each(store: Store) -> None:
    await spoken(store, title="a", worktree=WORKTREE, metadata={"m": [1]})
    archived = await spoken(store, "codex", key="k")
    await store.archive(archived, "me", "completed")
    for header in (await store.sessions()).sessions:
        assert header == await store.session(header.id)


async def test_a_long_list_is_the_same_without_metadata(store: Store) -> None:
    first = await spoken(store, title="ä\n", cwd="/w", worktree=WORKTREE, metadata={"m": [1]})
    await store.enqueue(first, "go on")
    second = await spoken(store, "codex", key="k", host="h", link=Link(first, "fork"))
    await store.archive(second, "me", "completed")
    await store.delete(await spoken(store, title="away"), "me", "gone")
    after = None
    for _ in range(3):
        page = await store.sessions(state="all", limit=1, before=after)
        headers, after = await store.headers(state="all", limit=1, before=after)
        assert after == page.next
        plain = [msgspec.to_builtins(session) for session in page.sessions]
        for one in plain:
            del one["metadata"], one["metadata_problem"]
        assert [msgspec.to_builtins(header) for header in headers] == plain
    assert after is None
    assert await store.headers(text="\0") == ([], None)
    with pytest.raises(errors.NotFound):
        await store.headers(before="nowhere")


async def test_states_are_told_apart(store: Store) -> None:
    live, archived, deleted, both = [await spoken(store) for _ in range(4)]
    for session in (archived, both):
        await store.archive(session, "me", "completed")
    for session in (deleted, both):
        await store.delete(session, "me", "gone")
    assert await listed(store, state="live") == [live]
    assert await listed(store, state="archived") == [archived]
    assert set(await listed(store, state="deleted")) == {deleted, both}
    assert set(await listed(store)) == {live, archived}
    assert set(await listed(store, state="all")) == {live, archived, deleted, both}
    assert await listed(store, state="nonsense") == []


async def test_agents_and_keys_are_compared_whole(store: Store) -> None:
    one = await spoken(store, "claude", key="k:1")
    two = await spoken(store, "codex", key="k:10")
    assert await listed(store, agent="claude") == [one]
    assert await listed(store, key="k:1") == [one]
    assert await listed(store, key="k:10", agent="codex") == [two]
    assert await listed(store, key="K:1") == [] == await listed(store, agent="c%")
    assert await listed(store, key="\0") == [] == await listed(store, agent="\ud800")


async def test_text_is_found_as_it_is_written_whatever_its_case(store: Store) -> None:
    titles = [
        "Größe ÄNDERN",
        "100% sure",
        "a_b",
        "axb",
        "back\\slash",
        "STRASSE",
        "🎉 here",
        "1000 sure",
    ]
    sessions = {title: await spoken(store, title=title) for title in titles}
    for text, wanted in {
        "grösse ändern": ["Größe ÄNDERN"],
        "ÄNDER": ["Größe ÄNDERN"],
        "100%": ["100% sure"],
        "%": ["100% sure"],
        "_": ["a_b"],
        "A_B": ["a_b"],
        "\\": ["back\\slash"],
        "k\\s": ["back\\slash"],
        "straße": ["STRASSE"],
        "🎉": ["🎉 here"],
        "sure": ["100% sure", "1000 sure"],
        "\0": [],
        "\ud800": [],
        "x" * 60_000: [],
    }.items():
        assert sorted(await listed(store, text=text)) == sorted(sessions[t] for t in wanted), text


async def test_text_is_looked_for_in_key_cwd_branch_agent_and_id(store: Store) -> None:
    session = await spoken(store, "gemini", key="forge:7", cwd="/srv/Code", worktree=WORKTREE)
    await spoken(store, "claude", title="other")
    for text in ("FORGE:7", "srv/code", "fix-1", "Gemini", session[3:12].upper()):
        assert await listed(store, text=text) == [session], text
    await store.describe(session, title="new words", key=None)
    assert await listed(store, text="NEW WORDS") == [session]
    assert await listed(store, text="forge:7") == []


async def test_empty_sessions_are_hidden_but_for_a_worktree_or_a_prompt(store: Store) -> None:
    empty = (await store.create_session("claude", title="only a title")).id
    worktree = (await store.create_session("claude", worktree=WORKTREE)).id
    prompted = (await store.create_session("claude")).id
    await store.enqueue(prompted, "hi")
    noticed = (await store.create_session("claude")).id
    await store.commit(Commit(noticed, [type(said())("notice", {"text": "x", "code": "y"})]))
    assert set(await listed(store)) == {worktree, prompted}
    assert set(await listed(store, empty=True)) == {empty, worktree, prompted, noticed}
    await store.commit(Commit(empty, [said()]))
    assert set(await listed(store)) == {empty, worktree, prompted}


async def test_pages_visit_each_session_once_while_others_are_written(store: Store) -> None:
    quiet = [await spoken(store) for _ in range(12)]
    busy = [await spoken(store) for _ in range(4)]
    seen: list[str] = []
    before = None
    while True:
        page = await store.sessions(before=before, limit=3)
        seen += [header.id for header in page.sessions]
        await store.commit(Commit(busy[len(seen) % 4], [said()]))
        await spoken(store)  # a new one, ahead of all pages
        before = page.next
        if before is None:
            break
    assert [s for s in seen if s in quiet] == quiet[::-1]
    assert len(seen) == len(set(seen))


async def test_pages_of_sessions_of_one_moment_join(store: Store) -> None:
    at = "2099-01-01T00:00:00.000000Z"
    sessions = []
    for _ in range(7):
        session = (await store.create_session("claude")).id
        await store.commit(Commit(session, [type(said())("user", {"text": "x"}, at)]))
        sessions.append(session)
    seen: list[str] = []
    before = None
    for expected in (3, 3, 1):
        page = await store.sessions(before=before, limit=3)
        assert len(page.sessions) == expected
        seen += [header.id for header in page.sessions]
        before = page.next
    assert before is None and seen == sessions[::-1]
    assert (await store.sessions(limit=7)).next is None


async def test_a_page_that_never_was_is_not_found(store: Store) -> None:
    await spoken(store)
    for before in (
        "garbage",
        "2026/x",
        "2026/²",
        "2026/",
        "/",
        "x/" + "9" * 5000,
        "\0/1",
        "\ud800/1",
        "x/-1",
    ):
        with pytest.raises(errors.NotFound):
            await store.sessions(before=before)


async def test_a_header_has_no_way_to_write(store: Store) -> None:
    header = await store.session(await spoken(store))
    for name in header.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(header, name, None)
    assert not [
        name for name in dir(Session) if not name.startswith("__") and callable(getattr(Session, name))
    ]
    metadata = header.metadata
    assert metadata is not None
    metadata["mine"] = True  # a copy of the caller's own
    assert (await store.session(header.id)).metadata == {}
    assert "body" not in msgspec.json.encode(header).decode()


async def test_no_list_or_look_reads_the_log(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of SQLite itself; PostgreSQL runs the same statements."""
    if not isinstance(store, SqliteStore):
        return
    session = await spoken(store, key="k")
    task = await store.enqueue(session, "hi")
    read: set[str | None] = set()

    def watch(operation: int, table: str | None, *_: Any) -> int:
        if operation == apsw.SQLITE_READ:
            read.add(table)
        return apsw.SQLITE_OK

    def watched(path: str) -> apsw.Connection:
        db = open_reader(path)
        db.authorizer = watch
        return db

    store._reader().authorizer = watch
    monkeypatch.setattr(sqlite_store, "open_reader", watched)  # of the threads for long reads
    await store.sessions(state="all", text="x", empty=True)
    await store.session(session)
    for name in (session, session[:9], "k"):
        await store.resolve(name)
    await store.tokens(session)
    await store.task(task.id)
    await store.tasks()
    assert {"session", "token", "task"} <= read and "log" not in read
    await store.events(session)
    assert "log" in read  # the watch does see it


def hashes(home: Home) -> dict[str, str]:
    """Every file of a home but SQLite's shared memory, which readers use to be seen by writers."""
    found = {}
    for folder, _, names in os.walk(home.path):
        for name in names:
            if not name.endswith("-shm"):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
                found[path] = f"{content} {os.stat(path).st_mtime_ns}"
    return found


async def test_reads_do_not_write(store: Store, opener: Any, location: Location, home: Home) -> None:
    session = await spoken(store, title="t", key="k", metadata={"a": 1})
    await store.see_token(session, "claude", "n")
    task = await store.enqueue(session, "hi")
    await store.claim(task.id, 0, OWNER, 60)
    deleted = await spoken(store)
    await store.delete(deleted, "me", "gone")
    await store.close()
    again = await opener()
    before = hashes(home)
    assert location.kind != "sqlite" or len(before) > 3
    for _ in range(3):
        await again.sessions(state="all", text="t", empty=True)
        await again.resolve("k")
        await again.resolve(session[:10])
        await again.session(deleted)
        await log_of(again, session)
        await again.event_lines(session)
        await again.tokens(session)
        await again.sessions_of_token("claude", "n")
        await again.resume_target(session)
        await again.task(task.id)
        await again.tasks(status="queued")
        await again.cursor()
        await whole_log(again)
        with pytest.raises(errors.NotFound):
            await again.session("nobody")
    assert hashes(home) == before
    if location.kind == "sqlite":
        reader = open_reader(location.address)
        with pytest.raises(apsw.ReadOnlyError):
            reader.execute("delete from log")
        reader.close()
