"""`python -m tests.browser.fill HOME WHAT [NUMBER]`: sessions that no agent would make as quickly."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent, Origin
from holdfast.model.session import Worktree
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.store import Store

HOSTILE = (
    "<script>window.owned = 1</script><img src=x onerror='window.owned = 2'>"
    "[click](javascript:window.owned=3) ![pic](http://127.0.0.1:9/x.png) <b>bold</b>\n\n"
    "abc\u202edcba\u2066 tail \x1b[31mred\x1b[0m bell\x07"
)


async def main(path: str, what: str, number: int) -> str:
    """The session that was made last."""
    home = Home(path)
    home.make()
    store = await open_store(
        Location("sqlite", home.database), home, AgentRegistry.from_config({}).token_rules()
    )
    try:
        made = {
            "long": _long,
            "hostile": _hostile,
            "replayed": _replayed,
            "many": _many,
            "empty": _empty,
            "worktree": _worktree,
        }
        return await made[what](store, number)
    finally:
        await store.close()


async def _add(store: Store, session: str, events: Iterator[NewEvent]) -> None:
    batch: list[NewEvent] = []
    for event in events:
        batch.append(event)
        if len(batch) == 500:
            await store.commit(Commit(session, tuple(batch)))
            batch = []
    if batch:
        await store.commit(Commit(session, tuple(batch)))


async def _long(store: Store, number: int) -> str:
    session = await store.create_session("demo", title=f"A log of {number} records")

    def events() -> Iterator[NewEvent]:
        for i in range(2, number + 1, 4):
            words = "word " * (i % 90 + 3)
            yield NewEvent("assistant", {"text": f"Message number {i}.\n\n{words}"})
            yield NewEvent(
                "tool_progress",
                {"call": f"c{i}", "name": "shell", "input": {"command": f"make step-{i}"}},
            )
            yield NewEvent(
                "tool_summary",
                {"call": f"c{i}", "name": "shell", "outcome": "ok", "output": f"line {i}\n" * (i % 7 + 1)},
            )
            yield NewEvent("thinking", {"text": f"Thought {i}."})

    made = iter(list(events())[: number - 1])
    await _add(store, session.id, made)
    return session.id


async def _hostile(store: Store, _number: int) -> str:
    title = "<img src=x onerror='window.owned = 4'> \u202eevil title"
    session = await store.create_session("demo", title=title, key="<svg/onload=window.owned=5>")
    edit = {"file_path": "a.py", "old_string": "one\ntwo\nthree\n", "new_string": "one\n2\nthree\n"}
    calls = [
        ("h1", "<b>tool</b>", {"command": HOSTILE}, "x" * 1_000_000),
        ("h2", "Edit", edit, "ok"),
        ("h3", "shell", {"command": "seq 500"}, "\n".join(str(i) for i in range(500))),
    ]
    events = [NewEvent("user", {"text": HOSTILE}), NewEvent("assistant", {"text": HOSTILE})]
    for call, name, given, output in calls:
        events.append(NewEvent("tool_progress", {"call": call, "name": name, "input": given}))
        events.append(
            NewEvent("tool_summary", {"call": call, "name": name, "outcome": "ok", "output": output})
        )
    events.append(NewEvent("notice", {"text": HOSTILE, "code": "<i>code</i>"}))
    events.append(NewEvent("assistant", {"text": "`" * 3000 + "*" * 3000 + "[" * 3000 + ">" * 3000}))
    await store.commit(Commit(session.id, tuple(events)))
    return session.id


async def _replayed(store: Store, _number: int) -> str:
    session = await store.create_session("demo", title="Went on elsewhere")

    def past(kind: str, record: str, text: str) -> NewEvent:
        return NewEvent(kind, {"text": text}, replayed=True, origin=Origin("demo", "native-77", record))

    old = [past("user", "1", "Asked long ago"), past("assistant", "2", "Answered long ago")]
    await store.commit(Commit(session.id, (*old, NewEvent("assistant", {"text": "Said now"}))))
    return session.id


async def _empty(store: Store, _number: int) -> str:
    return (await store.create_session("demo", title="Nothing was said")).id


async def _worktree(store: Store, _number: int) -> str:
    made = Worktree("/src/thing.worktrees/tide", "holdfast/tide", "/src/thing", "2026-11-01T00:00:00Z")
    return (await store.create_session("demo", title="Nothing was said in a worktree", worktree=made)).id


async def _many(store: Store, number: int) -> str:
    session = ""
    for i in range(number):
        made = await store.create_session("demo", key=f"key:{i}", title=f"Session number {i}")
        session = made.id
        await store.commit(Commit(session, (NewEvent("user", {"text": "hello"}),)))
    return session


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)))
