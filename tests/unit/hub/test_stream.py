"""Frames, cursors and queues of the hub's streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import cast

import pytest

from holdfast.hub.state import TtlCache
from holdfast.hub.streaming import feed as subscriber
from holdfast.hub.streaming import frames
from holdfast.hub.streaming.feed import Feed
from holdfast.hub.streaming.frames import SseFrame, StreamPosition
from holdfast.model.event import Event, Origin
from holdfast.runner.context import ReadPartial
from holdfast.store.store import Store
from holdfast.store.types import ChangeFeedEntry, ChangeFeedPage

AT = "2026-01-31T12:00:00.000000Z"


def made(
    number: int, session: str = "s1", seq: int | None = None, text: str = "x", task: str = "t1"
) -> SseFrame:
    event = Event(number if seq is None else seq, "assistant", {"text": text}, AT, task)
    return SseFrame(session, event, f"epoch.{number}")


def places(piece: bytes) -> list[str]:
    return [line[4:] for line in piece.decode().split("\n") if line.startswith("id: ")]


def test_an_event_is_one_frame_whatever_it_says() -> None:
    found = made(7, text="a\nb\r\ndata: c\u2028\n\nid: 9").in_all()
    assert found.count(b"\n\n") == 1 and b"\r" not in found
    lines = found.decode().rstrip("\n").split("\n")
    assert lines[:2] == ["id: epoch.7", "event: event"]
    assert json.loads(lines[2].removeprefix("data: "))["event"]["seq"] == 7
    assert found is not made(7).in_all() and (one := made(7)).in_all() is one.in_all()


@pytest.mark.parametrize("replayed", [True, False])
@pytest.mark.parametrize("text", ["plain", "half a character \ud83d"])
def test_a_live_frame_has_every_field_of_the_event(replayed: bool, text: str) -> None:
    """A reader that is live and one that reads the past get the same event, the mark of a replay included."""
    origin = Origin(agent="claude", native_id="n1", record_id="r1")
    event = Event(7, "assistant", {"text": text}, AT, "t1", replayed=replayed, origin=origin)
    frame = SseFrame("s1", event, "epoch.7")
    fields = {
        "seq": 7,
        "kind": "assistant",
        "body": {"text": text},
        "at": AT,
        "task": "t1",
        "replayed": replayed,
        "origin": {"agent": "claude", "native_id": "n1", "record_id": "r1"},
    }
    past = frames.from_line(StreamPosition("epoch", "s1", 7), json.dumps(fields))
    for piece in (frame.in_all(), frame.in_session(), past):
        (data,) = [line for line in piece.decode().split("\n") if line.startswith("data: ")]
        assert json.loads(data.removeprefix("data: ")) == {"session": "s1", "event": fields}


@pytest.mark.parametrize(
    "cursor", ["", "x", "1/2", "a/b/c", "a/b/-1", "a/b/", "a/b/" + "9" * 30, "a/b/1/2", "١"]
)
def test_garbage_is_no_place(cursor: str) -> None:
    assert frames.read(cursor) is None


def test_a_place_is_read_as_it_was_written() -> None:
    assert frames.read(frames.written(StreamPosition("ab12", "s1", 7))) == StreamPosition("ab12", "s1", 7)


async def test_a_reader_gets_what_is_beyond_its_place_once() -> None:
    feed = Feed()
    one, every = feed.join("s1"), feed.join(None)
    assert feed.subscribers == 2
    for each in (one, every):
        assert each.go_live()
        for number in range(1, 6):
            each.put(made(number))
    piece, place = await one.take(after=3)
    assert (places(piece), place) == (["epoch/s1/4", "epoch/s1/5"], 5)
    piece, place = await every.take(after=0)
    assert (places(piece)[-1], place) == ("epoch.5", 5)
    waiting = asyncio.create_task(one.take(place))
    await asyncio.sleep(0)
    one.put(made(5))  # once more
    one.put(made(6))
    assert places((await waiting)[0]) == ["epoch/s1/6"]
    feed.leave(one)
    feed.leave(every)
    assert feed.subscribers == 0


async def test_a_live_reader_that_is_too_slow_is_closed_and_one_that_reads_the_past_is_not() -> None:
    for live in (True, False):
        slow = subscriber.Subscriber("s1")
        slow.listen()
        if live:
            assert slow.go_live()
        for number in range(subscriber.FRAMES + 1):
            slow.put(made(number + 1))
        if live:
            assert slow.why is not None and await slow.take(0) == (b"", 0)
        else:
            assert slow.why is None and slow.missed
            assert not slow.go_live()  # it must read the past again
            slow.listen()
            slow.put(made(9999))
            assert slow.go_live()
            assert places((await slow.take(0))[0]) == ["epoch/s1/9999"]


async def test_few_large_events_run_over_too() -> None:
    slow = subscriber.Subscriber(None)
    slow.listen()
    slow.go_live()
    for number in range(subscriber.BYTES // 65536 + 2):
        slow.put(made(number + 1, text="x" * 65536))
    assert slow.why is not None


async def test_of_what_is_being_said_only_the_latest_waits_and_not_beyond_its_event() -> None:
    reader = subscriber.Subscriber("s1")
    reader.listen()
    reader.put_partial("t1", b"too early: the past comes first")
    reader.go_live()
    for text in ("a", "ab", "abc"):
        reader.put_partial("t1", frames.partial("s1", "t1", "assistant", text))
    reader.put_partial("t2", frames.partial("s1", "t2", "assistant", "other"))
    piece, _ = await reader.take(0)
    assert [json.loads(line[6:])["text"] for line in piece.decode().split("\n") if line[:5] == "data:"] == [
        "abc",
        "other",
    ]
    reader.put_partial("t1", b"half")
    reader.put(made(1))
    assert b"half" not in (await reader.take(0))[0]


async def test_what_is_said_fast_is_told_seldom_but_to_its_end() -> None:
    feed, said = Feed(), ["a"]
    reader = feed.join("s1")
    reader.go_live()
    told: list[str] = []
    for _ in range(100):
        said[0] += "b"
        feed.speech.overhear("s1", "t1", lambda: ("assistant", said[0]))
    while not told or told[-1] != said[0]:
        piece, _ = await reader.take(0)
        told += [json.loads(line[6:])["text"] for line in piece.decode().split("\n") if line[:5] == "data:"]
    assert len(told) == 2


def texts(piece: bytes) -> list[str]:
    """What the partials of a piece say."""
    rows = [json.loads(line[6:]) for line in piece.decode().split("\n") if line.startswith("data: ")]
    return [row["text"] for row in rows if "text" in row]


def saying(text: str) -> ReadPartial:
    return lambda: ("assistant", text) if text else None


async def test_who_joins_in_the_middle_is_told_at_once_what_is_being_said() -> None:
    feed = Feed()
    said = {"t1": ("s1", "one"), "t2": ("s2", "two"), "t3": ("s1", ""), "t4": ("s1", "gone")}
    for task, (session, text) in said.items():
        feed.speech.overhear(session, task, saying(text))
    feed.speech.overhear("s1", "t4", None)  # another has it now, or it has ended
    for which, ought in (("s1", ["one"]), ("s2", ["two"]), ("s3", []), (None, ["one", "two"])):
        reader = feed.join(which)
        reader.go_live()
        feed.speech.catch_up(reader)
        reader.put(made(1, task="other"))
        assert texts((await reader.take(0))[0]) == ought


class OneChange:
    """A store in which one event comes, and then nothing more."""

    async def follow(self, cursor: str) -> AsyncIterator[ChangeFeedPage]:
        """See `Store`."""
        yield ChangeFeedPage([ChangeFeedEntry("epoch.1", "s1", made(1).event)], "epoch.1", False, False)
        await asyncio.Event().wait()


async def test_an_event_does_not_hide_what_is_said_behind_it() -> None:
    """The driver is ahead of the feed: when the event of a block comes, the next block may be half said."""
    feed = Feed()
    reader = feed.join("s1")
    reader.go_live()
    feed.speech.overhear("s1", "t1", lambda: ("assistant", "the next"))
    running = asyncio.create_task(feed.run(cast(Store, OneChange()), "epoch.0"))
    piece = b""
    while not places(piece):
        piece, place = await reader.take(0)
    while not texts(piece):
        piece, place = await asyncio.wait_for(reader.take(place), 60)
    assert texts(piece) == ["the next"]
    running.cancel()


def test_half_a_character_goes_over_a_stream() -> None:
    assert b"a\\ud83d" in made(1, text="a\ud83d").in_all()
    assert texts(frames.partial("s1", "t1", "assistant", "b\ud83d")) == ["b\ud83d"]


async def test_a_log_that_became_another_is_begun_anew() -> None:
    feed = Feed()
    reader = feed.join("s1")
    reader.go_live()
    reader.put(made(1))
    feed.begin_anew("another")
    assert await reader.take(0) == (b"", 0) and reader.reset == "another"
    feed.close("the hub stops")
    assert reader.why == "the hub stops"


def test_what_is_kept_is_good_for_its_mark_and_its_time() -> None:
    kept: TtlCache[str] = TtlCache(60.0, 2)
    assert kept.get("a") is None and kept.keep("a", "1", "mark") == "1"
    assert kept.get("a", "mark") == "1" and kept.get("a", "other") is None
    for name in "bc":
        kept.keep(name, name)
    assert kept.get("c") == "c" and kept.get("a", "mark") is None
    stale: TtlCache[str] = TtlCache(0.0)
    stale.keep("a", "1")
    assert stale.get("a") is None
