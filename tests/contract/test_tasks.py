"""Tasks: a status follows another as the table says, and a prompt is delivered or still there."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from holdfast import errors, ids
from holdfast.model import changes as c
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.task import ACTIVE, ENDED, MAY_BECOME, Status, Task
from holdfast.store.store import Store
from tests.conftest import Opener
from tests.support.store_calls import claim_next
from tests.support.store_model import OWNER, nothing_changes, said

STATUSES: tuple[Status, ...] = (
    "queued",
    "running",
    "unreachable",
    "succeeded",
    "failed",
    "cancelled",
    "interrupted",
)


async def queued(store: Store, agent: str = "claude", host: str | None = None) -> Task:
    session = await store.create_session(agent, host=host)
    return await store.enqueue(session.id, "hi")


async def claimed(store: Store) -> Task:
    return await store.claim((await queued(store)).id, 0, OWNER, 60)


async def brought_to(store: Store, status: Status) -> Task:
    """A fresh task in that status."""
    if status == "queued":
        return await queued(store)
    task = await claimed(store)
    return task if status == "running" else await store.set_status(task.id, status, generation=1)


async def test_a_task_is_queued_as_it_was_given(store: Store) -> None:
    session = await store.create_session("claude")
    task = await store.enqueue(session.id, "do it", options={"model": "x", "n": [1]})
    assert (task.session, task.prompt, task.options) == (session.id, "do it", {"model": "x", "n": [1]})
    assert (task.status, task.delivery, task.generation, task.spool) == ("queued", "waiting", 0, 0)
    assert (task.owner, task.lease_until, task.started_at, task.ended_at) == (None, None, None, None)
    assert await store.task(task.id) == task
    assert (await store.session(session.id)).tasks == 1


async def test_tasks_are_listed_in_the_order_they_were_queued(store: Store) -> None:
    one, two = [(await store.create_session("claude")).id for _ in range(2)]
    tasks = [await store.enqueue(session, str(i)) for i, session in enumerate([one, two, one, two])]
    assert await store.tasks() == tasks
    assert await store.tasks(session=one) == [tasks[0], tasks[2]]
    cancelled = await store.set_status(tasks[1].id, "cancelled")
    assert await store.tasks(status="cancelled") == [cancelled]
    assert await store.tasks(limit=2) == [tasks[0], cancelled]
    assert await store.tasks(session="nobody\0", status="queued") == []


async def test_an_ended_task_takes_no_more_from_its_owner(store: Store) -> None:
    task = await claimed(store)
    await store.set_status(task.id, "failed", generation=1, reason="exit 1", outcome={"code": 1})
    async with nothing_changes(store):
        with pytest.raises(errors.StaleGeneration):
            await store.commit(Commit(task.session, [said()], task=task.id, generation=1, spool=5))
        with pytest.raises(errors.StaleGeneration):
            await store.renew(task.id, 1, 60)
        with pytest.raises(errors.StaleGeneration):
            await store.claim(task.id, 1, OWNER, 60)


async def test_renewing_lengthens_the_lease_and_adds_no_record(store: Store) -> None:
    task = await claimed(store)
    events = (await store.session(task.session)).events
    await store.renew(task.id, 1, 3600)
    now = await store.task(task.id)
    assert now.lease_until is not None and task.lease_until is not None
    assert now.lease_until > task.lease_until
    assert (await store.session(task.session)).events == events
    await store.commit(Commit(task.session, [said()], task=task.id, generation=1, spool=3))
    assert (await store.task(task.id)).lease_until == now.lease_until
    for nothing in (ids.new(ids.TASK), "\ud800"):
        with pytest.raises(errors.StaleGeneration):
            await store.renew(nothing, 1, 60)


async def test_a_status_follows_another_only_as_the_table_says(store: Store) -> None:
    for before, after in itertools.product(STATUSES, STATUSES):
        task = await brought_to(store, before)
        generation = task.generation if before in ACTIVE else None
        try:
            task = await store.set_status(task.id, after, generation=generation, reason="why")
        except errors.IllegalChange:
            assert after not in MAY_BECOME[before], (before, after)
            continue
        assert after in MAY_BECOME[before], (before, after)
        assert (task.status, task.reason) == (after, "why")
        assert (task.ended_at is not None) == (after in ENDED)
        if after == "queued":
            assert (task.owner, task.lease_until, task.delivery) == (None, None, "waiting")
            assert (await store.claim(task.id, 1, OWNER, 60)).generation == 2


async def test_a_delivered_prompt_is_not_delivered_twice(store: Store) -> None:
    task = await claimed(store)
    assert (await store.deliver(task.id, "sent", 1)).delivery == "sent"
    async with nothing_changes(store):
        assert (await store.deliver(task.id, "sent", 1)).delivery == "sent"
        with pytest.raises(errors.IllegalChange):
            await store.deliver(task.id, "waiting", 1)
    assert (await store.deliver(task.id, "accepted", 1)).delivery == "accepted"
    async with nothing_changes(store):
        with pytest.raises(errors.IllegalChange):
            await store.deliver(task.id, "sent", 1)
        with pytest.raises(errors.IllegalChange):
            await store.set_status(task.id, "queued", generation=1)
        with pytest.raises(errors.BadInput):
            await store.deliver(task.id, "bogus", 1)  # type: ignore[arg-type]


async def test_a_queued_prompt_survives_archive_delete_and_reopening(store: Store, opener: Opener) -> None:
    task = await queued(store)
    await store.archive(task.session, "me", "User terminated")
    assert await store.task(task.id) == task
    assert await claim_next(store, OWNER, 60) is None
    with pytest.raises(errors.IllegalChange):
        await store.claim(task.id, 0, OWNER, 60)
    await store.unarchive(task.session, "me")
    await store.delete(task.session, "me", "by mistake")
    assert await claim_next(store, OWNER, 60) is None
    await store.restore(task.session, "me")
    await store.close()
    again = await opener()
    assert await again.task(task.id) == task
    assert (await again.claim(task.id, 0, OWNER, 60)).prompt == "hi"


async def test_a_task_is_put_back_at_most_once(store: Store, opener: Opener) -> None:
    task = await claimed(store)
    await store.set_status(task.id, "interrupted", generation=1)
    other = await opener()
    answers = await asyncio.gather(
        *[s.enqueue(task.session, "again", retry_of=task.id) for s in (store, other, store)],
        return_exceptions=True,
    )
    (retry,) = [a for a in answers if isinstance(a, Task)]
    refusals = [a for a in answers if isinstance(a, errors.IllegalChange)]
    assert len(refusals) == 2 and {r.facts["task"] for r in refusals} == {retry.id}
    assert retry.retry_of == task.id
    async with nothing_changes(store):
        for nothing in (ids.new(ids.TASK), ""):
            with pytest.raises(errors.NotFound):
                await store.enqueue(task.session, "again", retry_of=nothing)


async def test_a_task_is_queued_once_and_only_under_an_id_of_ours(store: Store) -> None:
    task = await claimed(store)
    elsewhere = (await store.create_session("claude")).id
    queue = c.QueueTask(prompt="hijack")
    async with nothing_changes(store):
        for session in (task.session, elsewhere):
            with pytest.raises(errors.IllegalChange):
                await store.commit(Commit(session, [queue], task=task.id))
        for name in ("x", 'x"y', "\0", "\ud800", "../t", task.session):
            with pytest.raises(errors.BadInput):
                await store.commit(Commit(elsewhere, [queue], task=name))
        with pytest.raises(errors.BadInput):
            await store.commit(Commit(elsewhere, [queue]))
        for options in ([1], "x", 5):
            with pytest.raises(errors.BadInput):
                await store.enqueue(elsewhere, "hi", options=options)  # type: ignore[arg-type]
        with pytest.raises(errors.BadInput):
            await store.enqueue(elsewhere, None)  # type: ignore[arg-type]


async def test_the_records_of_one_task_by_kind(store: Store) -> None:
    task = await claimed(store)
    other = await claimed(store)
    await store.commit(Commit(task.session, [said("hello")], task=task.id))
    notice = NewEvent("notice", {"text": "mine", "code": "x"})
    await store.commit(Commit(task.session, [notice], task=task.id))
    await store.commit(Commit(task.session, [notice]))
    await store.commit(Commit(other.session, [notice], task=other.id))
    found = await store.task_events(task.id, ("notice", "permission"))
    assert [(e.kind, e.task, e.body) for e in found] == [("notice", task.id, notice.body)]
    assert await store.task_events(task.id, ("permission",)) == []
    with pytest.raises(errors.NotFound):
        await store.task_events(ids.new(ids.TASK), ("notice",))


async def test_the_latest_tasks_of_a_folder(store: Store) -> None:
    made = []
    for cwd in ("/a", "/b", "/a"):
        session = await store.create_session("claude", cwd=cwd)
        made.append((await store.enqueue(session.id, "go")).id)
    assert [t.id for t in await store.latest_tasks(cwd="/a")] == [made[2], made[0]]
    assert [t.id for t in await store.latest_tasks(limit=2)] == [made[2], made[1]]


async def test_the_last_tasks_of_live_sessions(store: Store) -> None:
    """An old failure is listed although many later ones were followed by another task."""
    old = await brought_to(store, "failed")
    for _ in range(3):
        again = await brought_to(store, "failed")
        await store.enqueue(again.session, "once more")
    deleted, archived = await brought_to(store, "failed"), await brought_to(store, "failed")
    await store.delete(deleted.session, "tester", "not needed")
    await store.archive(archived.session, "tester", "done")
    new = await brought_to(store, "failed")
    assert [task.id for task in await store.last_tasks("failed", 3)] == [new.id, old.id]
    assert [task.id for task in await store.last_tasks("failed", 1)] == [new.id]
    assert await store.last_tasks("succeeded", 3) == []


async def test_the_overview_counts_what_its_lists_hold(store: Store) -> None:
    cut = [await brought_to(store, "interrupted") for _ in range(3)]
    done = await brought_to(store, "succeeded")
    gone = await brought_to(store, "succeeded")
    await store.delete(gone.session, "somebody", "no longer wanted")
    await store.enqueue(cut[0].session, "again")  # what was interrupted no longer waits
    found = await store.overview("2000-01-01", limit=1)
    assert (found.waiting, [task.id for task in found.interrupted]) == (2, [cut[2].id])
    assert done.ended_at is not None
    assert [count for count in found.days if count.kind == "succeeded"] == [
        ("succeeded", done.ended_at[:10], 1)
    ]
    listed = await store.latest_tasks(status="succeeded", day=done.ended_at[:10])
    assert [task.id for task in listed] == [done.id]


async def test_a_task_that_is_given_back_begins_a_new_spool(store: Store) -> None:
    task = await claimed(store)
    await store.commit(Commit(task.session, [], task=task.id, generation=task.generation, spool=700))
    back = await store.set_status(task.id, "queued", generation=task.generation)
    assert (back.spool, back.delivery, back.owner) == (0, "waiting", None)
    again = await store.claim(task.id, back.generation, OWNER, 60)
    await store.commit(Commit(task.session, [], task=task.id, generation=again.generation, spool=5))
    assert (await store.task(task.id)).spool == 5


async def test_what_is_asked_is_listed_until_it_is_answered(store: Store) -> None:
    one, two, ended = [await claimed(store) for _ in range(3)]

    async def say(task: Task, ask: str, answer: str | None = None, *, replayed: bool = False) -> None:
        body = {"call": "c", "ask": ask, "name": "shell", "input": {"command": ask}, "answer": answer}
        event = NewEvent("permission", body, replayed=replayed)
        await store.commit(Commit(task.session, [event], task=task.id))

    await say(two, "old", replayed=True)
    for task in (two, ended, one):
        await say(task, "a")
    await say(one, "b")
    await store.set_status(ended.id, "interrupted", generation=1)
    asked = [(a.task, a.session, a.body["ask"]) for a in await store.asked()]
    assert asked == [(t.id, t.session, ask) for t, ask in ((one, "a"), (one, "b"), (two, "a"))]
    await say(one, "a", "allow")
    assert [(a.task, a.body["ask"]) for a in await store.asked()] == [(one.id, "b"), (two.id, "a")]
    await say(one, "a")  # an agent may use an id again once it was answered
    assert [a.body["ask"] for a in await store.asked()] == ["b", "a", "a"]
    await store.set_status(one.id, "succeeded", generation=1)
    assert [a.task for a in await store.asked()] == [two.id]
