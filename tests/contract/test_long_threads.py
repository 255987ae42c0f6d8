"""A thread with more than 1,000 tasks: every question about it is answered from its end, on both stores."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from holdfast import ids
from holdfast.home import Home
from holdfast.model.changes import QueueTask, SetStatus
from holdfast.model.commit import Commit
from holdfast.model.session import Session
from holdfast.model.task import ACTIVE, Delivery, OpenTask, Status, Task
from holdfast.node import Node
from holdfast.process import identity
from holdfast.resume import facts
from holdfast.resume.log_evidence import touched
from holdfast.resume.verdict import judge
from holdfast.runner import sessions
from holdfast.store.store import Store
from holdfast.store.types import CommitResult
from tests.conftest import REGISTRY

MANY = 1200


async def run_task(store: Store, session: str, status: Status, prompt: str = "go") -> Task:
    """A task that the agent took, and its end."""
    queued = await store.enqueue(session, prompt)
    task = await store.claim(queued.id, queued.generation, identity.me("here"), 60)
    await store.deliver(task.id, "accepted", task.generation)
    if status == "running":
        return await store.task(task.id)
    return await store.set_status(task.id, status, generation=task.generation, reason="signal 9")


async def long_thread(store: Store) -> Session:
    """A thread whose first task succeeded, with 1,200 prompts behind it that were cancelled in the queue."""
    made = await store.create_session("demo", key="k", cwd="/w")
    await store.see_token(made.id, "demo", "n1", protocol="acp", seen_in="import")
    await run_task(store, made.id, "succeeded", "the first")
    cancel = SetStatus(status="cancelled", reason="by ann")
    commits = []
    for number in range(MANY):
        source = {"source": {"forge": "f", "delivery": f"d{number}"}}
        queue = QueueTask(prompt=f"p{number}", options=source)
        commits.append(Commit(made.id, [queue, cancel], task=ids.new(ids.TASK)))
    assert all(isinstance(done, CommitResult) for done in await store.commit_all(commits))
    return await store.session(made.id)


async def test_a_long_thread_is_asked_from_its_end(store: Store, home: Home) -> None:
    """One thread for all questions: to make it takes long."""
    thread = await long_thread(store)
    await _check_questions(store, thread)
    await _check_deliveries(store)
    cut = await run_task(store, thread.id, "cancelled")
    assert (await sessions.trust(store, thread.id, "ann", "looked")).id == cut.id
    running = await run_task(store, thread.id, "running")
    waiting = await store.enqueue(thread.id, "waits")
    is_open = [OpenTask(running.id, "running"), OpenTask(waiting.id, "queued")]
    assert await store.open_tasks(thread.id) == is_open
    assert (await store.started_tasks(thread.id, limit=5))[:2] == [running, cut]
    assert (await store.started_tasks(thread.id, but=running.id)) == [cut]
    latest = await store.latest_tasks(session=thread.id, limit=2)
    assert [task.id for task in latest] == [waiting.id, running.id]
    assert await store.latest_tasks(session=thread.id, status="running") == [running]
    await store.set_status(waiting.id, "cancelled")
    await store.set_status(running.id, "interrupted", generation=1, reason="signal 9")
    await _check_verdict(store, home, thread.id, running.id)


async def _check_questions(store: Store, thread: Session) -> None:
    assert len(await store.tasks(session=thread.id)) == thread.tasks == 1 + MANY
    first = await store.first_task(thread.id)
    assert first is not None and first.prompt == "the first"
    assert await store.started_tasks(thread.id) == [first] == [await store.first_started_task(thread.id)]
    assert await store.started_count(thread.id) == 1
    assert await store.has_unsuccessful(thread.id) and await store.open_tasks(thread.id) == []


async def _check_deliveries(store: Store) -> None:
    assert await store.key_has_tasks("k") and not await store.key_has_tasks("other")
    for number in (0, 5, MANY - 1):
        (found,) = await store.delivered_tasks("k", f"d{number}")
        assert found.prompt == f"p{number}"
    for unknown in ("d", "D5", "d%", "d_", '"', "\\", "ü"):
        assert await store.delivered_tasks("k", unknown) == []
    assert await store.delivered_tasks("other", "d5") == []


async def _check_verdict(store: Store, home: Home, thread: str, interrupted: str) -> None:
    """An interruption behind the 1,000th task is seen, and the session is not resumed."""
    place = facts.NativeLocation(home, {}, Node("here", frozenset({"here"})))
    found = await facts.gather(store, REGISTRY.get("demo"), place, thread)
    assert found.last is not None and (found.last.task, found.last.status) == (interrupted, "interrupted")
    verdict = judge(found)
    assert verdict.action == "fresh" and "last_interrupted" in [reason.code for reason in verdict.reasons]


async def test_the_store_and_the_rules_agree_on_what_reached_an_agent(store: Store) -> None:
    """Every status with every delivery, as a task can come to it."""
    agreed = 0
    statuses = [status for status in get_args(Status) if status != "waiting"]  # that is a queued one
    for status, delivery in itertools.product(statuses, get_args(Delivery)):
        session = (await store.create_session("demo")).id
        task = await store.enqueue(session, "go")
        if status != "queued":
            task = await store.claim(task.id, 0, identity.me("here"), 60)
            if delivery != "waiting":
                task = await store.deliver(task.id, delivery, 1)
            if status != "running":
                task = await store.set_status(task.id, status, generation=1)
        assert await store.started_tasks(session) == ([task] if touched(task) else []), (status, delivery)
        assert await store.started_count(session) == int(touched(task))
        assert await store.has_unsuccessful(session) == (status in ("interrupted", "cancelled", "failed"))
        is_open = status in ACTIVE or status == "queued"
        assert await store.open_tasks(session) == ([OpenTask(task.id, status)] if is_open else [])
        agreed += 1
    assert agreed == len(statuses) * len(get_args(Delivery))


@pytest.mark.parametrize("name", ["nobody", "s" + "0" * 15])
async def test_questions_about_no_session(store: Store, name: str) -> None:
    assert await store.latest_tasks(session=name) == [] and await store.tasks(session=name) == []


async def test_only_what_can_still_be_run_again_is_redispatched(store: Store) -> None:
    """Of many interrupted tasks: the last one started in a live session, once."""
    went_on, cut, cut_twice, put_away = [
        (await store.create_session("demo", key=key)).id for key in ("on", "cut", "twice", "away")
    ]
    for session in (went_on, cut_twice):
        for _ in range(3):
            await run_task(store, session, "interrupted")
    await run_task(store, went_on, "succeeded")
    first = await run_task(store, cut, "interrupted")
    last = (await store.started_tasks(cut_twice))[0]
    await run_task(store, put_away, "interrupted")
    await store.archive(put_away, "ann", "away")
    assert [task.id for task in await store.redispatchable_tasks()] == [last.id, first.id]
    assert [task.id for task in await store.redispatchable_tasks("cut")] == [first.id]
    queued = await store.enqueue(cut, "not started, so nothing has changed")
    assert [task.id for task in await store.redispatchable_tasks("cut")] == [first.id]
    await store.set_status(queued.id, "cancelled")
    again = await store.enqueue(cut, "again", retry_of=first.id)
    assert await store.redispatchable_tasks("cut") == []
    await store.set_status(again.id, "cancelled")
    assert await store.redispatchable_tasks("cut") == [], "each once"
    assert await store.redispatchable_tasks("k\0") == []
