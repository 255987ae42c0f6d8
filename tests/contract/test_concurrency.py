"""Many writers, many openers, and a log that no statement can shorten."""

from __future__ import annotations

import asyncio
import os
import re

import msgspec
import pytest

import holdfast
from holdfast import errors
from holdfast.model import changes as c
from holdfast.model.commit import Commit, Entry
from holdfast.model.projection import View, fold
from holdfast.model.session import Session
from holdfast.store.mirror.compare import pages
from holdfast.store.queries import shared
from holdfast.store.sql import Sql
from holdfast.store.store import Store
from tests.conftest import Opener
from tests.support.store_model import OWNER, log_of, said, whole_log


async def test_events_of_fifty_writers_land_once_and_in_order(store: Store, opener: Opener) -> None:
    stores = [store, await opener(), await opener()]
    sessions = [(await store.create_session("claude")).id for _ in range(3)]

    async def write(i: int) -> None:
        for j in range(4):
            done = await stores[i % 3].commit(
                Commit(sessions[i % len(sessions)], [said(f"{i}.{j}", f"{i}.{j}"), said("again", f"{i}.0")])
            )
            assert (len(done.seqs), done.dropped) == (1, 1)

    await asyncio.gather(*[write(i) for i in range(50)])
    found: list[str] = []
    for session in sessions:
        log = await log_of(store, session)
        assert [e.seq for e in log] == list(range(1, len(log) + 1))
        found += [e.body["text"] for e in log[1:]]
    assert sorted(found) == sorted(f"{i}.{j}" for i in range(50) for j in range(4))
    for i in range(50):
        mine = [text for text in found if text.startswith(f"{i}.")]
        assert mine == [f"{i}.{j}" for j in range(4)]
    assert len(await whole_log(store)) == 203


async def test_one_origin_of_many_writers_is_stored_once(store: Store, opener: Opener) -> None:
    stores = [store, await opener()]
    session = (await store.create_session("claude")).id
    done = await asyncio.gather(*[s.commit(Commit(session, [said("x", "1")])) for s in stores * 10])
    assert sum(d.dropped for d in done) == 19 and sum(len(d.seqs) for d in done) == 1


async def test_a_key_raced_for_by_openers_has_one_winner(store: Store, opener: Opener) -> None:
    stores = [store, await opener()]
    answers = await asyncio.gather(
        *[s.create_session("claude", key="k") for s in stores * 5], return_exceptions=True
    )
    (won,) = [a for a in answers if isinstance(a, Session)]
    lost = [a for a in answers if isinstance(a, errors.KeyTaken)]
    assert len(lost) == 9 and {r.facts["session"] for r in lost} == {won.id}


async def test_a_token_raced_for_by_openers_is_one_step(store: Store, opener: Opener) -> None:
    stores = [store, await opener()]
    session = (await store.create_session("claude")).id
    news = await asyncio.gather(*[s.see_token(session, "claude", "A", protocol="p") for s in stores * 5])
    assert sum(news) == 1 and len(await store.tokens(session)) == 1


async def test_a_refused_write_does_not_hurt_those_it_was_committed_with(store: Store) -> None:
    session = (await store.create_session("claude", key="k")).id

    async def good(i: int) -> None:
        await store.commit(Commit(session, [said(str(i))]))

    async def bad(i: int) -> None:
        with pytest.raises((errors.Refused, errors.NotFound, errors.BadInput)):
            if i % 3 == 0:
                await store.create_session("claude", key="k")
            elif i % 3 == 1:
                await store.patch_metadata(session, {"x": i}, 99)
            else:
                await store.describe(session, title="\ud800")

    await asyncio.gather(*[(good, bad)[i % 2](i) for i in range(60)])
    log = await log_of(store, session)
    assert [e.body["text"] for e in log[1:]] == [str(i) for i in range(0, 60, 2)]


async def test_a_caller_that_gives_up_does_not_stop_the_others(store: Store) -> None:
    session = (await store.create_session("claude")).id
    writers = [asyncio.create_task(store.commit(Commit(session, [said(str(i), str(i))]))) for i in range(20)]
    await asyncio.sleep(0)
    for writer in writers[::2]:
        writer.cancel()
    await asyncio.gather(*writers, return_exceptions=True)
    await store.commit(Commit(session, [said("last")]))
    log = await log_of(store, session)
    texts = [e.body["text"] for e in log[1:]]
    assert {str(i) for i in range(1, 20, 2)} <= set(texts) and texts[-1] == "last"
    assert len(texts) == len(set(texts)) and [e.seq for e in log] == list(range(1, len(log) + 1))


async def test_the_views_are_what_the_log_says(store: Store, opener: Opener) -> None:
    """Fold each log from nothing: header, lineage and tasks must come out as they are kept."""
    other = await opener()
    session = (await store.create_session("cursor", key="k", metadata={"a": 1})).id
    await store.commit(Commit(session, [said("a", "1"), said("b", kind="thinking")]))
    task = await other.enqueue(session, "hi", options={"x": "\ud800"})
    await store.claim(task.id, 0, OWNER, 60)
    entries: list[Entry] = [
        c.SeeToken(agent="cursor", native_id="A", seen_in="stream"),
        said("c"),
        c.Deliver(delivery="sent"),
    ]
    await other.commit(Commit(session, entries, task=task.id, generation=1, spool=77))
    await store.see_token(session, "cursor", "A", protocol="acp", task=task.id)
    await other.see_token(session, "cursor", "B")
    await store.patch_metadata(session, {"a": None, "b": {"c": 1}}, 1)
    await store.set_status(task.id, "queued", generation=1, reason="host went away")
    await store.claim(task.id, 1, OWNER, 60)
    await store.set_status(task.id, "failed", generation=2, outcome={"code": 1})
    await other.revoke_token(session, "cursor", "B", "lost")
    await store.describe(session, title="t")
    await store.archive(session, "me", "completed")
    await store.delete(session, "me", "gone")
    await store.restore(session, "me")

    async def fold_it(sql: Sql) -> View:
        n = (await sql.dicts("session", id=session))[0]["n"]
        return fold(session, [record async for page in pages(sql, n) for record in page])

    view = await store.query(fold_it)
    tasks = {task.id: task for task in await store.tasks(session=session)}
    header = await store.session(session)
    assert (header.last_task, header.last_status) == (task.id, "failed")
    header = msgspec.structs.replace(header, last_task=None, last_status=None)  # looked up, not kept
    assert view == View(header, tuple(await store.tokens(session)), tasks)


def sources() -> dict[str, str]:
    """Everything of ours that could hold SQL, by path, its white space evened."""
    root = os.path.dirname(holdfast.__file__)
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith((".py", ".sql")):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    found[os.path.relpath(path, root)] = re.sub(r"\s+", " ", file.read().lower())
    assert "store/queries.sql" in found and len(found) > 30
    return found


def test_no_statement_deletes_or_rewrites_a_record() -> None:
    for path, text in sources().items():
        assert not re.search(r"\b(delete from|update|replace into|truncate) log\b", text), path
        assert not re.search(r"\binsert or \w+ into\b|\bdrop table\b", text), path
        for insert in re.findall(r"insert into log\b.*?(?=-- name|$)", text):
            assert "on conflict" not in insert, path


def test_only_a_rebuild_of_views_takes_rows_away() -> None:
    """Tokens and tasks are views of the log; only a rebuild clears them. Old notifications are no record."""
    deleting = {name for name, statement in shared("?").items() if "delete from" in statement.text.lower()}
    assert deleting <= {"drop_tokens", "drop_task", "trim_notifications"}
    for path, text in sources().items():
        if not path.startswith("recovery/") and path.endswith(".py"):
            assert '"drop_' not in text and '"move_' not in text, path
            assert set(re.findall(r"delete from (\w+)", text)) <= {"writer"}, path  # no view: who writes


def test_a_token_or_task_that_moves_on_keeps_what_it_was_seen_as() -> None:
    kept = {"put_token": ("native_id =", "agent =", " at ="), "put_task": ("prompt =", " n =")}
    for name, columns in kept.items():
        changed = shared("?")[name].text.lower().split("do update set", 1)[1]
        assert not [column for column in columns if column in changed]
