"""A reader that takes nothing for a while, over a real connection: told why; nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import json
from http.client import IncompleteRead
from pathlib import Path
from typing import Any

import pytest

from holdfast.home import Home
from tests.hub.asking import Listening, ask, get
from tests.hub.running_hub import RunningHub, odd, running
from tests.hub.test_many_readers import BIG, MB, opened, say

SMALL_BUFFER = 4096
BURSTS, BURST = 10, 64  # events of 64 KB: five times what may wait for a reader
MANY = BURSTS * BURST

Frame = dict[str, str]


def heard(reading: Listening, most: int | None = None) -> list[Frame]:
    """The whole frames that come: up to that many events (0: the first frame), or until the stream ends."""
    frames: list[Frame] = []
    left = most
    while left is None or left > 0 or not frames:
        try:
            frame = reading.frame()
        except (IncompleteRead, ConnectionError):  # cut off
            break
        if not frame or ("event" in frame and not frame["data"].endswith("}")):  # its end, or half a frame
            break
        frames.append(frame)
        if left is not None and frame.get("event") == "event":
            left -= 1
    return frames


def events(frames: list[Frame]) -> list[Any]:
    return [json.loads(frame["data"])["event"] for frame in frames if frame.get("event") == "event"]


def ids(frames: list[Frame]) -> list[str]:
    return [frame["id"] for frame in frames if "id" in frame]


def the_log(hub: RunningHub, session: str) -> list[Any]:
    return list(hub.client().events(session))


@pytest.mark.parametrize("of_all", [False, True], ids=["of a session", "of all"])
async def test_a_reader_that_is_too_slow_is_told_so_and_loses_nothing(hub: RunningHub, of_all: bool) -> None:
    """Meanwhile a quick one gets it all, and the hub holds no more than is allowed to wait."""
    store = await opened(hub)
    session = (await store.create_session("demo")).id
    where = "/api/stream" if of_all else f"/api/sessions/{session}/stream"
    first = Listening(hub, where)
    begin = ids(heard(first, 0))[0]
    first.close()
    slow = Listening(hub, where, buffer=SMALL_BUFFER, last=begin)
    seen = heard(slow, 0)  # it is there
    quick = Listening(hub, where, last=begin)
    taken = [] if of_all else heard(quick, 1)  # that it was created
    before = hub.rss()
    for _ in range(BURSTS):  # the slow one takes nothing of it all: nobody waits for that
        await say(store, session, BIG, BURST)
        taken += await asyncio.to_thread(heard, quick, BURST)
    after = hub.rss()
    assert after < before + 24 * MB, (before // MB, after // MB)
    seen += await asyncio.to_thread(heard, slow)
    assert seen[-1]["event"] == "closing" and "too slow" in json.loads(seen[-1]["data"])["why"]
    assert len(events(seen)) < MANY
    back = Listening(hub, where, last=ids(seen)[-1])
    seen += await asyncio.to_thread(heard, back, len(events(taken)) - len(events(seen)))
    for reading in (quick, slow, back):
        reading.close()
    await store.close()
    log = the_log(hub, session)
    assert events(seen) == events(taken) == (log[1:] if of_all else log)
    assert not [frame for frame in seen if frame.get("event") == "gap"]


async def test_a_reader_that_does_not_even_take_the_reason_is_cut_off(home: Home, tmp_path: Path) -> None:
    with running(home, str(tmp_path / "work"), program=odd("impatient", "0.2")) as hub:
        store = await opened(hub)
        session = (await store.create_session("demo")).id
        where = f"/api/sessions/{session}/stream"
        stuck = Listening(hub, where, buffer=SMALL_BUFFER)
        seen = heard(stuck, 0)
        assert b"holdfast_subscribers 1\n" in ask(hub, "GET", "/metrics").body
        await say(store, session, BIG, MANY)
        hub.terminal.until(lambda: b"holdfast_subscribers 0\n" in ask(hub, "GET", "/metrics").body)
        seen += await asyncio.to_thread(heard, stuck)  # what was on its way
        assert "closing" not in [frame.get("event") for frame in seen]
        assert len(events(seen)) < MANY
        back = Listening(hub, where, last=ids(seen)[-1])
        seen += await asyncio.to_thread(heard, back, MANY + 1 - len(events(seen)))
        for reading in (stuck, back):
            reading.close()
        await store.close()
        assert events(seen) == the_log(hub, session)
        assert get(hub, "/healthz")["status"] == "ok"
