"""Sessions whose last task is missing are told of at start, once, and begin anew."""

from __future__ import annotations

from holdfast.node import Node
from holdfast.runner import finish
from holdfast.store.store import Store

HERE = Node("here", frozenset({"here", "as it was named before"}))


async def test_a_token_of_a_run_that_is_not_recorded_is_told_of_once(store: Store) -> None:
    lost = await store.create_session("demo", host="here")
    await store.see_token(lost.id, "demo", "native-1", seen_in="stream")
    found = await finish.note_missing_tasks(store, HERE)
    assert [(one["session"], one["task"]) for one in found] == [(lost.id, None)]
    (event,) = [event for event in await store.events(lost.id) if event.kind == "notice"]
    assert event.body["code"] == "last_unrecorded"
    assert await finish.note_missing_tasks(store, HERE) == []


async def test_others_are_left_alone(store: Store) -> None:
    imported = await store.create_session("demo", host="here")
    await store.see_token(imported.id, "demo", "native-2", seen_in="import")
    ran = await store.create_session("demo", host="here")
    await store.enqueue(ran.id, "p")
    await store.see_token(ran.id, "demo", "native-3", seen_in="stream")
    elsewhere = await store.create_session("demo", host="there")
    await store.see_token(elsewhere.id, "demo", "native-4", seen_in="stream")
    away = await store.create_session("demo", host="here")
    await store.see_token(away.id, "demo", "native-5", seen_in="stream")
    await store.archive(away.id, "me", "done")
    await store.create_session("demo", host="here")
    assert await finish.note_missing_tasks(store, HERE) == []
