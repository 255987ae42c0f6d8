"""The mirror writer and its thread: no session is forgotten, whatever happens."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.store.mirror.writer import MirrorWriter, SessionBacklog
from holdfast.store.sqlite.store import SqliteStore
from tests.conftest import REGISTRY


def test_who_waits_is_taken_once_in_order() -> None:
    waiting = SessionBacklog()
    waiting.add(["a", "b"])
    waiting.add(["a", "c"])
    assert [waiting.take() for _ in range(4)] == ["a", "b", "c", None]
    assert not waiting


class Hesitating(dict[str, None]):
    """A dict that lets the other thread in just where that hurts: once it has begun to be looked at."""

    def __iter__(self) -> Iterator[str]:
        looking = super().__iter__()
        time.sleep(0.0001)
        return looking


def test_filling_and_emptying_by_two_threads_loses_nobody() -> None:
    waiting, taken = SessionBacklog(), set()
    waiting._sessions = Hesitating()
    names = [f"s{i}" for i in range(1000)]

    def fill() -> None:
        for name in names:
            waiting.add([name])
            time.sleep(0)

    filler = threading.Thread(target=fill)
    filler.start()
    while filler.is_alive() or waiting:
        taken.add(waiting.take())
    filler.join()
    assert taken - {None} == set(names)


async def test_an_unexpected_error_does_not_end_the_thread(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    catch_up = MirrorWriter.catch_up
    failures = iter([True])

    async def fail_once(self: MirrorWriter, sql: Any) -> None:
        if next(failures, False):
            raise RuntimeError("out of the blue")
        await catch_up(self, sql)

    monkeypatch.setattr(MirrorWriter, "catch_up", fail_once)
    store = SqliteStore(home.database, home, REGISTRY.token_rules())
    session = await store.create_session("claude")
    await store.with_mirrors(lambda files: None)
    await store.commit(Commit(session.id, [NewEvent("user", {"text": "still here"})]))
    await store.with_mirrors(lambda files: None)
    with open(os.path.join(home.sessions, session.id + ".jsonl"), encoding="utf-8") as file:
        assert "still here" in file.read()
    await store.close()
