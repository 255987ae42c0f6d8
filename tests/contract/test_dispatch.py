"""The store's call that queues a judged prompt, alike on both stores: all or nothing, and never twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import errors, ids, timestamps
from holdfast.model.changes import Create, SetStatus
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.session import Link, Session
from holdfast.model.task import Task, WaitingFor
from holdfast.process import identity
from holdfast.store.store import Store
from holdfast.store.types import Dispatch, SessionReplacement
from tests.conftest import Opener

NOTE = NewEvent("notice", {"text": "resume=<none>: because", "code": "not_resumed"})


async def thread(store: Store) -> Session:
    """A live session under a key, with a token."""
    made = await store.create_session("demo", key="k", cwd="/w")
    await store.see_token(made.id, "demo", "n1")
    return await store.session(made.id)


def into(session: str, prompt: str = "go", **more: Any) -> Dispatch:
    return Dispatch(session, prompt, {}, **more)


def instead_of(old: Session, **more: Any) -> Dispatch:
    create = Create(agent="demo", key="k", cwd="/w", link=Link(old.id, "fresh"))
    given = {
        "create": create,
        "replaces": SessionReplacement(old.id, "ann", "it goes on"),
        "events": (NOTE,),
        **more,
    }
    return Dispatch(ids.new(ids.SESSION), "go", {}, **given)


async def claimed(store: Store, task: Task) -> Task:
    return await store.claim(task.id, task.generation, identity.me("here"), 60)


async def test_a_prompt_is_queued_where_it_was_judged(store: Store) -> None:
    old = await thread(store)
    task = await store.dispatch(into(old.id, seen=old.events))
    assert (task.session, task.status) == (old.id, "queued")
    with pytest.raises(errors.SessionRunning) as refusal:
        await store.dispatch(into(old.id))
    assert refusal.value.facts["task"] == task.id
    behind = await store.dispatch(into(old.id, "then", queue=True))
    assert [t.id for t in await store.tasks(session=old.id)] == [task.id, behind.id]


async def test_a_judgement_that_is_out_of_date_queues_nothing(store: Store) -> None:
    old = await thread(store)
    before = (await store.session(old.id)).events
    for dispatch in (into(old.id, seen=before - 1), instead_of(old, seen=before - 1)):
        with pytest.raises(errors.PlanChanged):
            await store.dispatch(dispatch)
    await store.archive(old.id, "ann", "away")
    for dispatch in (into(old.id), instead_of(old)):
        with pytest.raises(errors.PlanChanged):
            await store.dispatch(dispatch)
    assert await store.tasks() == [] and len((await store.sessions(state="all", empty=True)).sessions) == 1


async def test_a_new_session_takes_over_key_and_place(store: Store) -> None:
    old = await thread(store)
    task = await store.dispatch(instead_of(old, seen=old.events))
    new, away = await store.session(task.session), await store.session(old.id)
    assert (new.key, new.state, new.link) == ("k", "live", Link(old.id, "fresh"))
    assert away.state == "archived" and away.archive is not None and away.archive.by == "ann"
    assert [t.status for t in await store.tokens(old.id)] == ["current"]
    assert await store.resolve("k") == new.id
    kinds = [(e.kind, e.task) for e in await store.events(new.id)]
    assert kinds == [("session", task.id), ("task", task.id), ("notice", task.id)]


async def test_what_waits_goes_along_in_order(store: Store) -> None:
    old = await thread(store)
    first = await store.enqueue(old.id, "first")
    waiting = [await store.enqueue(old.id, f"waits {n}", options={"n": n}) for n in range(3)]
    wait = SetStatus(status="waiting", waiting_for=WaitingFor("owner", "busy", timestamps.now()))
    await store.commit(Commit(old.id, [wait], task=waiting[0].id))
    moving = SessionReplacement(old.id, "holdfast", "it goes on", (first.id, first.generation))
    task = await store.dispatch(instead_of(old, replaces=moving, retry_of=first.id))
    left = await store.tasks(session=old.id)
    assert [t.status for t in left] == ["cancelled"] * 4
    gone_on = await store.tasks(session=task.session)
    assert [t.prompt for t in gone_on] == ["go", "waits 0", "waits 1", "waits 2"]
    assert [t.options for t in gone_on[1:]] == [t.options for t in waiting]
    assert [t.retry_of for t in gone_on] == [t.id for t in left]
    assert [t.outcome["moved_to"] for t in left if t.outcome] == [
        {"session": task.session, "task": t.id} for t in gone_on
    ]


async def test_one_that_has_another_owner_by_now_is_not_moved(store: Store) -> None:
    old = await thread(store)
    running = await claimed(store, await store.enqueue(old.id, "go"))
    for generation in (running.generation - 1, running.generation):
        stale = SessionReplacement(old.id, "holdfast", "on", (running.id, generation))
        with pytest.raises(errors.StaleGeneration):
            await store.dispatch(instead_of(old, replaces=stale))
    assert (await store.session(old.id)).state == "live" and len(await store.tasks()) == 1


@pytest.mark.parametrize(
    "spoilt",
    [
        {"create": Create(agent="", key="k")},
        {"create": Create(agent="demo", key="k\0")},
        {"create": Create(agent="demo", key="taken")},
        {"create": Create(agent="demo", key="k", metadata={"demoSessionId": "x"})},
        {"events": (NewEvent("nonsense", {}),)},
        {"retry_of": "t000000000000000"},
    ],
)
async def test_what_is_refused_leaves_the_old_one_as_it_was(store: Store, spoilt: dict[str, Any]) -> None:
    await store.create_session("demo", key="taken")
    old = await thread(store)
    with pytest.raises((errors.BadInput, errors.Refused, errors.NotFound)):
        await store.dispatch(instead_of(old, **spoilt))
    with pytest.raises(errors.BadInput):
        await store.dispatch(instead_of(old, replaces=SessionReplacement(old.id, "a\0", "why")))
    assert await store.session(old.id) == old and await store.tasks() == []


async def test_a_task_is_tried_again_once(store: Store) -> None:
    old = await thread(store)
    running = await claimed(store, await store.enqueue(old.id, "go"))
    await store.set_status(running.id, "interrupted", generation=running.generation)
    again = await store.dispatch(instead_of(await store.session(old.id), retry_of=running.id))
    with pytest.raises(errors.IllegalChange):
        await store.dispatch(into(again.session, queue=True, retry_of=running.id))


async def test_of_many_at_once_one_is_queued(opener: Opener) -> None:
    stores = [await opener() for _ in range(3)]
    old = await thread(stores[0])
    wanted = [instead_of(old, seen=old.events) for _ in range(6)] + [into(old.id, seen=old.events)] * 6
    ended = await asyncio.gather(
        *[stores[n % 3].dispatch(one) for n, one in enumerate(wanted)], return_exceptions=True
    )
    assert len([one for one in ended if isinstance(one, Task)]) == 1, ended
    assert all(isinstance(one, (Task, errors.PlanChanged, errors.SessionRunning)) for one in ended), ended
    live = (await stores[1].sessions(state="live", key="k", empty=True)).sessions
    assert len(live) == 1 and len(await stores[2].tasks()) == 1


async def test_the_mirrors_of_both_follow(opener: Opener) -> None:
    store = await opener()
    old = await thread(store)
    task = await store.dispatch(instead_of(old))
    found = await store.with_mirrors(
        lambda files: [open_lines(files.home.mirror(s)) for s in (old.id, task.session)]
    )
    assert found is not None
    assert "archive" in found[0][-1] and "not_resumed" in found[1][-1]


def open_lines(path: str) -> list[str]:
    with open(path) as file:
        return file.read().splitlines()


async def test_the_same_dispatch_made_twice_is_one_task(store: Store) -> None:
    old = await thread(store)
    name = ids.derived(ids.TASK, "forge", "delivery-1")
    first = await store.dispatch(into(old.id, task=name))
    assert first.id == name
    for again in (into(old.id, task=name), instead_of(old, task=name), into("s" + "0" * 15, task=name)):
        assert (await store.dispatch(again)).session == old.id
    with pytest.raises(errors.IllegalChange):
        await store.dispatch(into(old.id, "another prompt", task=name))
    with pytest.raises(errors.BadInput):
        await store.dispatch(into(old.id, task="../etc"))
    assert [t.id for t in await store.tasks()] == [name]


async def test_of_many_that_make_the_same_dispatch_at_once_one_queues_it(opener: Opener) -> None:
    stores = [await opener() for _ in range(3)]
    old = await thread(stores[0])
    name = ids.new(ids.TASK)
    made = await asyncio.gather(*[store.dispatch(instead_of(old, task=name)) for store in stores * 4])
    assert {task.session for task in made} == {made[0].session}
    assert len(await stores[0].tasks()) == 1
