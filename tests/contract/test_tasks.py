"""Tasks: one owner at a time, by generation, and a prompt that is delivered or still there."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from holdfast import clock, errors, ids
from holdfast.model import change as c
from holdfast.model.commit import Commit
from holdfast.model.task import ACTIVE, ENDED, MAY_BECOME, Owner, Status, Task
from holdfast.store.base import BaseStore
from tests.conftest import Opener
from tests.contract.model import OTHER_OWNER, OWNER, nothing_changes, said

STATUSES: tuple[Status, ...] = (
    "queued",
    "running",
    "unreachable",
    "succeeded",
    "failed",
    "cancelled",
    "interrupted",
)


async def queued(store: BaseStore, agent: str = "claude", host: str | None = None) -> Task:
    session = await store.create_session(agent, host=host)
    return await store.enqueue(session.id, "hi")


async def claimed(store: BaseStore) -> Task:
    return await store.claim((await queued(store)).id, 0, OWNER, 60)


async def brought_to(store: BaseStore, status: Status) -> Task:
    """A fresh task in that status."""
    if status == "queued":
        return await queued(store)
    task = await claimed(store)
    return task if status == "running" else await store.set_status(task.id, status, generation=1)


async def test_a_task_is_queued_as_it_was_given(store: BaseStore) -> None:
    session = await store.create_session("claude")
    task = await store.enqueue(session.id, "do it", options={"model": "x", "n": [1]})
    assert (task.session, task.prompt, task.options) == (session.id, "do it", {"model": "x", "n": [1]})
    assert (task.status, task.delivery, task.generation, task.spool) == ("queued", "waiting", 0, 0)
    assert (task.owner, task.lease_until, task.started_at, task.ended_at) == (None, None, None, None)
    assert await store.task(task.id) == task
    assert (await store.session(session.id)).tasks == 1


async def test_tasks_are_listed_in_the_order_they_were_queued(store: BaseStore) -> None:
    one, two = [(await store.create_session("claude")).id for _ in range(2)]
    tasks = [await store.enqueue(session, str(i)) for i, session in enumerate([one, two, one, two])]
    assert await store.tasks() == tasks
    assert await store.tasks(session=one) == [tasks[0], tasks[2]]
    cancelled = await store.set_status(tasks[1].id, "cancelled")
    assert await store.tasks(status="cancelled") == [cancelled]
    assert await store.tasks(limit=2) == [tasks[0], cancelled]
    assert await store.tasks(session="nobody\0", status="queued") == []


async def test_a_claim_makes_one_owner(store: BaseStore) -> None:
    task = await queued(store)
    before = clock.now()
    mine = await store.claim(task.id, 0, OWNER, 60)
    assert (mine.status, mine.owner, mine.generation) == ("running", OWNER, 1)
    assert mine.lease_until is not None and mine.lease_until > before and mine.started_at is not None
    async with nothing_changes(store):
        with pytest.raises(errors.StaleGeneration) as refusal:
            await store.claim(task.id, 0, OTHER_OWNER, 60)
        assert refusal.value.facts == {"generation": 1, "status": "running"}
        for nothing in (ids.new(ids.TASK), "\ud800", ""):
            with pytest.raises(errors.NotFound):
                await store.claim(nothing, 0, OWNER, 60)


async def test_a_claim_is_made_by_its_own_call_only(store: BaseStore) -> None:
    task = await queued(store)
    claim = c.ClaimTask(owner=OWNER, generation=9, lease_until=clock.now())
    async with nothing_changes(store):
        with pytest.raises(errors.BadInput):
            await store.commit(Commit(task.session, [claim], task=task.id))


async def test_each_of_many_tasks_is_claimed_once_by_racing_openers(store: BaseStore, opener: Opener) -> None:
    other = await opener()
    tasks = {(await queued(store)).id for _ in range(20)}
    won: list[tuple[str, int]] = []

    async def take(from_store: BaseStore, pid: int) -> None:
        owner = Owner("here", pid, 1.0, "b")
        while (task := await from_store.claim_next(owner, 60)) is not None:
            assert task.owner == owner
            won.append((task.id, pid))

    await asyncio.gather(*[take(s, i) for i, s in enumerate([store, other] * 3)])
    assert sorted(task for task, _ in won) == sorted(tasks)
    for task, pid in won:
        now = await store.task(task)
        assert now.generation == 1 and now.owner is not None and now.owner.pid == pid


async def test_of_many_that_claim_one_task_one_gets_it(store: BaseStore, opener: Opener) -> None:
    other = await opener()
    task = await queued(store)
    answers = await asyncio.gather(
        *[s.claim(task.id, 0, Owner("here", i, 1.0, "b"), 60) for i, s in enumerate([store, other] * 5)],
        return_exceptions=True,
    )
    assert len([a for a in answers if isinstance(a, Task)]) == 1
    assert len([a for a in answers if isinstance(a, errors.StaleGeneration)]) == 9


async def test_a_session_has_one_active_task(store: BaseStore) -> None:
    first = await claimed(store)
    second = await store.enqueue(first.session, "next")
    async with nothing_changes(store):
        with pytest.raises(errors.SessionRunning) as refusal:
            await store.claim(second.id, 0, OWNER, 60)
        assert refusal.value.facts["task"] == first.id
        assert await store.claim_next(OWNER, 60) is None
    await store.set_status(first.id, "unreachable", generation=1)
    async with nothing_changes(store):
        assert await store.claim_next(OWNER, 60) is None
    await store.set_status(first.id, "interrupted", generation=1)
    assert (await store.claim(second.id, 0, OWNER, 60)).status == "running"


async def test_two_sessions_never_drive_one_native_conversation(store: BaseStore, opener: Opener) -> None:
    one, two = await queued(store), await queued(store)
    for task in (one, two):
        await store.see_token(task.session, "claude", "shared")
    other = await opener()
    answers = await asyncio.gather(
        store.claim(one.id, 0, OWNER, 60), other.claim(two.id, 0, OTHER_OWNER, 60), return_exceptions=True
    )
    (won,) = [a for a in answers if isinstance(a, Task)]
    assert len([a for a in answers if isinstance(a, errors.SessionRunning)]) == 1
    assert await store.claim_next(OTHER_OWNER, 60) is None
    await store.see_token(won.session, "claude", "its own by now")
    assert await store.claim_next(OTHER_OWNER, 60) is not None


async def test_a_superseded_or_revoked_id_is_no_rival(store: BaseStore) -> None:
    one, two = await queued(store), await queued(store)
    await store.see_token(one.session, "claude", "shared")
    await store.revoke_token(one.session, "claude", "shared", "lost")
    await store.see_token(two.session, "claude", "shared")
    await store.claim(one.id, 0, OWNER, 60)
    await store.claim(two.id, 0, OWNER, 60)


async def test_claiming_the_next_looks_at_agent_and_host(store: BaseStore) -> None:
    anywhere = await queued(store, "codex")
    elsewhere = await queued(store, "claude", host="there")
    here = await queued(store, "claude", host="here")

    async def next_one(agents: set[str] | None = None, any_host: bool = False) -> str | None:
        wanted = None if agents is None else frozenset(agents)
        task = await store.claim_next(OWNER, 60, agents=wanted, any_host=any_host)
        return task.id if task else None

    assert await next_one({"gemini"}) is None and await next_one(set()) is None
    assert await next_one({"claude"}) == here.id
    assert await next_one({"claude"}) is None
    assert await next_one({"claude"}, any_host=True) == elsewhere.id
    assert await next_one() == anywhere.id


async def test_an_old_generation_is_refused_everywhere(store: BaseStore) -> None:
    task = await claimed(store)
    taken = await store.claim(task.id, 1, OTHER_OWNER, 60)  # a takeover: the owner is known to be dead
    assert (taken.generation, taken.owner, taken.started_at) == (2, OTHER_OWNER, task.started_at)
    for generation in (1, 0, 3):
        async with nothing_changes(store):
            for answer in (
                store.commit(Commit(task.session, [said()], task=task.id, generation=generation, spool=5)),
                store.set_status(task.id, "succeeded", generation=generation),
                store.deliver(task.id, "sent", generation),
                store.renew(task.id, generation, 600),
                store.claim(task.id, generation, OWNER, 60),
            ):
                with pytest.raises(errors.StaleGeneration):
                    await answer
    assert (await store.set_status(task.id, "succeeded", generation=2)).status == "succeeded"


async def test_an_active_task_is_changed_by_its_owner_only(store: BaseStore) -> None:
    task = await claimed(store)
    async with nothing_changes(store):
        with pytest.raises(errors.StaleGeneration):
            await store.set_status(task.id, "cancelled")
        with pytest.raises(errors.StaleGeneration):
            await store.commit(Commit(task.session, [c.Deliver(delivery="sent")], task=task.id))


async def test_an_ended_task_takes_no_more_from_its_owner(store: BaseStore) -> None:
    task = await claimed(store)
    await store.set_status(task.id, "failed", generation=1, reason="exit 1", outcome={"code": 1})
    async with nothing_changes(store):
        with pytest.raises(errors.StaleGeneration):
            await store.commit(Commit(task.session, [said()], task=task.id, generation=1, spool=5))
        with pytest.raises(errors.StaleGeneration):
            await store.renew(task.id, 1, 60)
        with pytest.raises(errors.StaleGeneration):
            await store.claim(task.id, 1, OWNER, 60)


async def test_renewing_lengthens_the_lease_and_adds_no_record(store: BaseStore) -> None:
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


async def test_a_status_follows_another_only_as_the_table_says(store: BaseStore) -> None:
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


async def test_a_delivered_prompt_is_not_delivered_twice(store: BaseStore) -> None:
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


async def test_a_queued_prompt_survives_archive_delete_and_reopening(
    store: BaseStore, opener: Opener
) -> None:
    task = await queued(store)
    await store.archive(task.session, "me", "User terminated")
    assert await store.task(task.id) == task
    await store.unarchive(task.session, "me")
    await store.delete(task.session, "me", "by mistake")
    assert await store.claim_next(OWNER, 60) is None
    await store.restore(task.session, "me")
    await store.close()
    again = await opener()
    assert await again.task(task.id) == task
    assert (await again.claim(task.id, 0, OWNER, 60)).prompt == "hi"


async def test_a_task_is_put_back_at_most_once(store: BaseStore, opener: Opener) -> None:
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


async def test_a_task_is_queued_once_and_only_under_an_id_of_ours(store: BaseStore) -> None:
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
