"""Events: seq without gaps, origins once, and one commit that is all or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import errors, ids
from holdfast.model import changes as c
from holdfast.model.commit import Commit, Entry
from holdfast.model.event import BODY_HAS, NewEvent
from holdfast.model.task import Task
from holdfast.store.store import Store
from holdfast.store.types import CommitResult
from tests.conftest import Opener
from tests.support.store_model import OWNER, log_of, nothing_changes, origin, said


async def running(store: Store) -> Task:
    session = await store.create_session("claude")
    task = await store.enqueue(session.id, "hi")
    return await store.claim(task.id, 0, OWNER, 60)


async def test_seq_has_no_gaps_over_all_kinds_of_records(store: Store) -> None:
    task = await running(store)
    await store.commit(Commit(task.session, [said("a"), said("b")]))
    await store.see_token(task.session, "claude", "n")
    async with nothing_changes(store):
        with pytest.raises(errors.BadInput):
            await store.commit(Commit(task.session, [said("c"), NewEvent("nonsense", {})]))
    done = await store.commit(Commit(task.session, [said("c")]))
    await store.archive(task.session, "me", "completed")
    log = await log_of(store, task.session)
    assert [e.seq for e in log] == list(range(1, len(log) + 1))
    assert [e.kind for e in log] == ["session", "task", "task", "user", "user", "token", "user", "session"]
    assert done.seqs == range(7, 8)
    assert (await store.session(task.session)).events == len(log)


async def test_commits_that_are_handed_in_together_are_taken_or_refused_each_by_itself(
    store: Store,
) -> None:
    first, second = await store.create_session("claude"), await store.create_session("claude")
    given = [
        Commit(first.id, [said("a")]),
        Commit(first.id, [said("b"), NewEvent("nonsense", {})]),
        Commit(ids.new(ids.SESSION), [said("c")]),
        Commit(second.id, [said("d")]),
        Commit(first.id, [said("e")]),
        Commit(first.id, [c.ClaimTask(owner=OWNER, generation=1, lease_until="")]),
    ]
    answers = await store.commit_all(given)
    kinds = [type(answer) for answer in answers]
    assert kinds == [
        CommitResult,
        errors.BadInput,
        errors.NotFound,
        CommitResult,
        CommitResult,
        errors.BadInput,
    ]
    logs = [await log_of(store, session.id) for session in (first, second)]
    assert [[e.body.get("text") for e in log[1:]] for log in logs] == [["a", "e"], ["d"]]
    assert await store.commit_all([]) == []


async def test_an_event_comes_back_as_it_was_given(store: Store) -> None:
    task = await running(store)
    at = "2025-12-31T23:59:59.000001Z"
    given = NewEvent("assistant", {"text": "x", "more": [1, None]}, at, True, origin("r1"))
    await store.commit(Commit(task.session, [given, said("now")], task=task.id))
    old, new = (await log_of(store, task.session))[-2:]
    assert (old.kind, old.body, old.at, old.replayed) == (
        "assistant",
        {"text": "x", "more": [1, None]},
        at,
        True,
    )
    assert (old.origin, old.task) == (origin("r1"), task.id)
    assert (new.origin, new.replayed) == (None, False) and new.at > at
    lines = [json.loads(line) for line in await store.event_lines(task.session)]
    assert lines[-2] == {
        "seq": old.seq,
        "kind": "assistant",
        "body": {"text": "x", "more": [1, None]},
        "at": at,
        "task": task.id,
        "replayed": True,
        "origin": {"agent": "claude", "native_id": "native-1", "record_id": "r1"},
    }


async def test_pages_of_a_log_join_without_a_seam(store: Store) -> None:
    session = await store.create_session("claude")
    await store.commit(Commit(session.id, [said(str(i)) for i in range(50)]))
    log = await log_of(store, session.id)
    paged: list[Any] = []
    while page := await store.events(session.id, after=len(paged), limit=7):
        assert len(page) <= 7
        paged += page
    assert paged == log and len(log) == 51
    assert await store.events(session.id, after=51) == []
    assert await store.events(session.id, after=10**6) == []


async def test_a_page_of_nothing_is_refused(store: Store) -> None:
    """Else an empty list, which means that was all, would not mean it."""
    session = await store.create_session("claude")
    for answer in (
        store.events(session.id, limit=0),
        store.event_lines(session.id, limit=-1),
        store.changes(limit=0),
        store.sessions(limit=0),
        store.sessions(limit=-2),
        store.tasks(limit=-1),
    ):
        with pytest.raises(errors.BadInput):
            await answer


async def test_a_repeated_origin_is_dropped_and_reported(store: Store, opener: Opener) -> None:
    session = (await store.create_session("claude")).id
    first = await store.commit(Commit(session, [said("a", "1"), said("b", "2"), said("a again", "1")]))
    assert (first.seqs, first.dropped) == (range(2, 4), 1)
    second = await store.commit(Commit(session, [said("c", "3"), said("a later", "1")]))
    assert (second.seqs, second.dropped) == (range(4, 5), 1)
    other = await opener()
    third = await other.commit(Commit(session, [said("b", "2"), said("d", "4")]))
    assert (third.seqs, third.dropped) == (range(5, 6), 1)
    fourth = await store.commit(Commit(session, [said("d", "4"), said("c", "3")]))
    assert (fourth.seqs, fourth.dropped) == (range(6, 6), 2)
    await store.close()
    again = await opener()
    fifth = await again.commit(Commit(session, [said(record, record) for record in "12345"]))
    assert (fifth.seqs, fifth.dropped) == (range(6, 7), 4)
    texts = [e.body["text"] for e in await log_of(again, session) if e.kind == "user"]
    assert texts == ["a", "b", "c", "d", "5"]


async def test_an_origin_counts_in_its_own_session_and_as_a_whole(store: Store) -> None:
    one = (await store.create_session("claude")).id
    two = (await store.create_session("claude")).id
    assert (await store.commit(Commit(one, [said("a", "1")]))).dropped == 0
    assert (await store.commit(Commit(two, [said("a", "1")]))).dropped == 0
    other_native = NewEvent("user", {"text": "a"}, origin=type(origin("1"))("claude", "native-2", "1"))
    assert (await store.commit(Commit(one, [other_native]))).dropped == 0
    assert (await store.commit(Commit(one, [said("a"), said("a")]))).dropped == 0  # no origin: no repeat


async def test_one_commit_carries_events_spool_token_and_status_together(store: Store) -> None:
    task = await running(store)
    entries: list[Entry] = [
        c.SeeToken(agent="claude", native_id="A", seen_in="stream"),
        c.Deliver(delivery="accepted"),
        said("done"),
        c.SetStatus(status="succeeded", outcome={"code": 0}),
    ]
    before = await store.session(task.session)
    done = await store.commit(Commit(task.session, entries, task=task.id, generation=1, spool=512))
    assert (len(done.seqs), done.dropped, done.unchanged) == (4, 0, 0)
    now = await store.task(task.id)
    assert (now.status, now.delivery, now.spool, now.outcome) == ("succeeded", "accepted", 512, {"code": 0})
    assert (await store.resume_target(task.session)).native_id == "A"
    assert (await store.session(task.session)).events == before.events + 4
    assert [t.task for t in await store.tokens(task.session)] == [task.id]


# What a caller without types may hand in.
NOTHING: Any = None
WORD: Any = "bogus"
LIST: Any = [{"text": "x"}]
NUMBER: Any = 5

BAD_ENTRIES: list[Any] = [
    NewEvent("nonsense", {}),
    NewEvent("session", {"op": "archive"}),
    NewEvent("token", {}),
    NewEvent("user", {"txt": "no text"}),
    NewEvent("user", NOTHING),
    NewEvent("user", WORD),
    NewEvent("user", LIST),
    NewEvent("tool_summary", {"call": "1", "name": "n", "outcome": "maybe", "output": ""}),
    NewEvent("tool_summary", {"call": "1", "name": "n", "outcome": {}, "output": ""}),
    NewEvent("user", {"text": "x"}, at="yesterday"),
    NewEvent("user", {"text": "x"}, at="2026-01-31T12:00:00Z"),
    NewEvent("user", {"text": "x"}, at=NUMBER),
    c.SetStatus(status="queued"),
    c.SetStatus(status=WORD),
    c.RevokeToken(agent="claude", native_id="never", reason="r"),
    c.PatchMetadata(patch={}, version=9),
    c.Create(agent="claude"),
    c.Deliver(delivery=WORD),
]


async def test_a_commit_whose_last_entry_is_refused_leaves_nothing(store: Store) -> None:
    for bad in BAD_ENTRIES:
        task = await running(store)
        await store.deliver(task.id, "accepted", 1)
        entries = [said("a", "1"), c.SeeToken(agent="claude", native_id="A", seen_in="stream"), bad]
        async with nothing_changes(store):
            with pytest.raises((errors.BadInput, errors.Refused, errors.NotFound)):
                await store.commit(Commit(task.session, entries, task=task.id, generation=1, spool=9))
        retried = await store.commit(Commit(task.session, entries[:2], task=task.id, generation=1, spool=9))
        assert (retried.dropped, len(retried.seqs)) == (0, 2)


async def test_every_kind_needs_what_its_body_is_to_have(store: Store) -> None:
    session = (await store.create_session("claude")).id
    for kind, needed in BODY_HAS.items():
        body = dict.fromkeys(needed, "ok")
        await store.commit(Commit(session, [NewEvent(kind, body)]))
        async with nothing_changes(store):
            for name in needed:
                short = {k: v for k, v in body.items() if k != name}
                with pytest.raises(errors.BadInput, match=name):
                    await store.commit(Commit(session, [NewEvent(kind, short)]))
    header = await store.session(session)
    assert (header.events, header.messages) == (1 + len(BODY_HAS), len(BODY_HAS) - 2)  # notice and error


async def test_the_spool_offset_does_not_go_back(store: Store) -> None:
    task = await running(store)

    async def spool(offset: int, *events: NewEvent) -> None:
        await store.commit(Commit(task.session, events, task=task.id, generation=1, spool=offset))

    await spool(100, said("a"))
    await spool(100)
    await spool(150)  # lines that said nothing
    assert (await store.task(task.id)).spool == 150
    async with nothing_changes(store):
        for offset in (149, 0, -1):
            with pytest.raises(errors.IllegalChange):
                await spool(offset, said("b"))
        with pytest.raises(errors.BadInput):
            await store.commit(Commit(task.session, [said("b")], task=task.id, spool=200))


async def test_a_dropped_event_still_moves_the_spool(store: Store) -> None:
    task = await running(store)
    for offset in (10, 20):
        await store.commit(Commit(task.session, [said("a", "1")], task=task.id, generation=1, spool=offset))
    assert (await store.task(task.id)).spool == 20
    assert [e.kind for e in await log_of(store, task.session)] == ["session", "task", "task", "user"]


async def test_an_event_of_a_task_that_is_not_there_is_refused(store: Store) -> None:
    """The task stands in every line of the mirror; only one of this session's may."""
    one = (await store.create_session("claude")).id
    foreign = await store.enqueue((await store.create_session("claude")).id, "hi")
    async with nothing_changes(store):
        for task in (ids.new(ids.TASK), foreign.id, 'x"y', "\0", "\ud800", ""):
            with pytest.raises((errors.NotFound, errors.BadInput)):
                await store.commit(Commit(one, [said()], task=task))
            with pytest.raises((errors.NotFound, errors.BadInput)):
                await store.see_token(one, "claude", "n", task=task)


async def test_a_commit_of_nothing_is_nothing(store: Store) -> None:
    session = await store.create_session("claude")
    async with nothing_changes(store):
        done = await store.commit(Commit(session.id))
    assert (len(done.seqs), done.dropped, done.unchanged) == (0, 0, 0)


async def test_a_session_can_be_begun_and_filled_in_one_commit(store: Store) -> None:
    session = ids.new(ids.SESSION)
    entries: list[Entry] = [
        c.Create(agent="codex"),
        c.SeeToken(agent="codex", native_id="n", seen_in="import"),
        said("a", "1"),
    ]
    assert (await store.commit(Commit(session, entries))).seqs == range(1, 4)
    assert (await store.session(session)).messages == 1
    assert (await store.resume_target(session)).native_id == "n"
