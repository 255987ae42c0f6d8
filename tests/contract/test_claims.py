"""Claims: a task has one owner at a time, by generation, and two never drive one conversation."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import errors, ids, timestamps
from holdfast.model import changes as c
from holdfast.model.commit import Commit
from holdfast.model.task import Owner, Task
from holdfast.store.store import Store
from tests.conftest import Opener
from tests.support.store_calls import claim_next
from tests.support.store_model import OTHER_OWNER, OWNER, nothing_changes, said


async def queued(store: Store, agent: str = "claude", host: str | None = None) -> Task:
    session = await store.create_session(agent, host=host)
    return await store.enqueue(session.id, "hi")


async def claimed(store: Store) -> Task:
    return await store.claim((await queued(store)).id, 0, OWNER, 60)


async def test_a_claim_makes_one_owner(store: Store) -> None:
    task = await queued(store)
    before = timestamps.now()
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


async def test_a_claim_is_made_by_its_own_call_only(store: Store) -> None:
    task = await queued(store)
    claim = c.ClaimTask(owner=OWNER, generation=9, lease_until=timestamps.now())
    async with nothing_changes(store):
        with pytest.raises(errors.BadInput):
            await store.commit(Commit(task.session, [claim], task=task.id))


async def test_each_of_many_tasks_is_claimed_once_by_racing_openers(store: Store, opener: Opener) -> None:
    other = await opener()
    tasks = {(await queued(store)).id for _ in range(20)}
    won: list[tuple[str, int]] = []

    async def take(from_store: Store, pid: int) -> None:
        owner = Owner("here", pid, 1.0, "b")
        while (task := await claim_next(from_store, owner, 60)) is not None:
            assert task.owner == owner
            won.append((task.id, pid))

    await asyncio.gather(*[take(s, i) for i, s in enumerate([store, other] * 3)])
    assert sorted(task for task, _ in won) == sorted(tasks)
    for task, pid in won:
        now = await store.task(task)
        assert now.generation == 1 and now.owner is not None and now.owner.pid == pid


async def test_of_many_that_claim_one_task_one_gets_it(store: Store, opener: Opener) -> None:
    other = await opener()
    task = await queued(store)
    answers = await asyncio.gather(
        *[s.claim(task.id, 0, Owner("here", i, 1.0, "b"), 60) for i, s in enumerate([store, other] * 5)],
        return_exceptions=True,
    )
    assert len([a for a in answers if isinstance(a, Task)]) == 1
    assert len([a for a in answers if isinstance(a, errors.StaleGeneration)]) == 9


async def test_a_session_has_one_active_task(store: Store) -> None:
    first = await claimed(store)
    second = await store.enqueue(first.session, "next")
    async with nothing_changes(store):
        with pytest.raises(errors.SessionRunning) as refusal:
            await store.claim(second.id, 0, OWNER, 60)
        assert refusal.value.facts["task"] == first.id
        assert await claim_next(store, OWNER, 60) is None
    await store.set_status(first.id, "unreachable", generation=1)
    async with nothing_changes(store):
        assert await claim_next(store, OWNER, 60) is None
    await store.set_status(first.id, "interrupted", generation=1)
    assert (await store.claim(second.id, 0, OWNER, 60)).status == "running"


async def test_two_sessions_never_drive_one_native_conversation(store: Store, opener: Opener) -> None:
    one, two = await queued(store), await queued(store)
    for task in (one, two):
        await store.see_token(task.session, "claude", "shared")
    other = await opener()
    answers = await asyncio.gather(
        store.claim(one.id, 0, OWNER, 60), other.claim(two.id, 0, OTHER_OWNER, 60), return_exceptions=True
    )
    (won,) = [a for a in answers if isinstance(a, Task)]
    assert len([a for a in answers if isinstance(a, errors.SessionRunning)]) == 1
    assert await claim_next(store, OTHER_OWNER, 60) is None
    await store.see_token(won.session, "claude", "its own by now")
    assert await claim_next(store, OTHER_OWNER, 60) is not None


async def test_a_superseded_or_revoked_id_is_no_rival(store: Store) -> None:
    one, two = await queued(store), await queued(store)
    await store.see_token(one.session, "claude", "shared")
    await store.revoke_token(one.session, "claude", "shared", "lost")
    await store.see_token(two.session, "claude", "shared")
    await store.claim(one.id, 0, OWNER, 60)
    await store.claim(two.id, 0, OWNER, 60)


async def test_claiming_the_next_looks_at_agent_and_host(store: Store) -> None:
    anywhere = await queued(store, "codex")
    elsewhere = await queued(store, "claude", host="there")
    here = await queued(store, "claude", host="here")

    async def next_one(agents: set[str] | None = None, any_host: bool = False) -> str | None:
        wanted = None if agents is None else frozenset(agents)
        task = await claim_next(store, OWNER, 60, agents=wanted, any_host=any_host)
        return task.id if task else None

    assert await next_one({"gemini"}) is None and await next_one(set()) is None
    assert await next_one({"claude"}) == here.id
    assert await next_one({"claude"}) is None
    assert await next_one({"claude"}, any_host=True) == elsewhere.id
    assert await next_one() == anywhere.id


async def test_an_old_generation_is_refused_everywhere(store: Store) -> None:
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


async def test_an_active_task_is_changed_by_its_owner_only(store: Store) -> None:
    task = await claimed(store)
    async with nothing_changes(store):
        with pytest.raises(errors.StaleGeneration):
            await store.set_status(task.id, "cancelled")
        with pytest.raises(errors.StaleGeneration):
            await store.commit(Commit(task.session, [c.Deliver(delivery="sent")], task=task.id))
