"""Which records are worth telling, to whom and when."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import timestamps
from holdfast.errors import BadInput
from holdfast.model.event import Event
from holdfast.model.session import Session
from holdfast.notify import occasions
from holdfast.notify.channels import ntfy_message, signature
from holdfast.notify.settings import Channel, QuietHours, read_notify

NOW = time.time()


def event(kind: str, body: dict[str, Any], *, replayed: bool = False, ago_s: float = 0.0) -> Event:
    return Event(7, kind, body, timestamps.stamp(NOW - ago_s), "t1", replayed)


def session(key: str | None = "issue-7") -> Session:
    at = timestamps.now()
    return Session(id="s1", agent="demo", state="live", created_at=at, updated_at=at, key=key)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (
            event("permission", {"call": "c", "name": "Bash", "input": {"command": "ls"}, "answer": None}),
            "asks",
        ),
        (event("permission", {"call": "c", "answer": "allow"}), None),
        (event("task", {"op": "status", "status": "interrupted", "reason": "died"}), "died"),
        (event("task", {"op": "status", "status": "failed"}), "failed"),
        (event("task", {"op": "status", "status": "succeeded"}), "finished"),
        (event("task", {"op": "status", "status": "cancelled"}), None),
        (event("task", {"op": "status", "status": "waiting", "waiting_for": {"cause": "person"}}), "waits"),
        (event("task", {"op": "status", "status": "waiting", "waiting_for": {"cause": "auth"}}), "login"),
        (event("task", {"op": "status", "status": "waiting", "waiting_for": {"cause": "owner"}}), None),
        (event("task", {"op": "status", "status": "failed"}, replayed=True), None),
        (event("assistant", {"text": "x"}), None),
    ],
)
def test_what_is_worth_telling(found: Event, kind: str | None) -> None:
    told = occasions.occasion("s1", found)
    assert (None if told is None else told.kind) == kind


def test_a_channel_gets_what_it_wants_once() -> None:
    told = occasions.occasion("s1", event("task", {"op": "status", "status": "failed", "reason": "no"}))
    assert told is not None
    channel = Channel("a", "webhook", keys=("issue-*",), delay_s=60)
    one = occasions.notification(told, session(), channel, "node", "https://hub/", NOW)
    assert one is not None and timestamps.parse(one.due_at) == pytest.approx(NOW + 60, abs=0.01)
    assert '"url": "https://hub/#/s/s1"' in one.body
    again = occasions.notification(told, session(), channel, "node", None, NOW + 5)
    assert again is not None and again.id == one.id, "the same occasion is the same row"
    assert occasions.notification(told, session("other"), channel, "node", None, NOW) is None
    assert occasions.notification(told, session(None), channel, "node", None, NOW) is None
    assert occasions.notification(told, session(), Channel("a", "ntfy", on=("asks",)), "n", None, NOW) is None
    old = told._replace(at=timestamps.stamp(NOW - 2 * 86400))
    assert occasions.notification(old, session(), channel, "node", None, NOW) is None


@given(st.integers(0, 1439), st.integers(0, 1439), st.floats(1.7e9, 1.9e9))
def test_quiet_hours_end_within_a_day_and_outside_of_them(start: int, end: int, at: float) -> None:
    quiet = QuietHours(start, end)
    loud = occasions.after_quiet(quiet, at)
    assert at <= loud <= at + 90000  # a day, and an hour where clocks change
    assert occasions.after_quiet(quiet, loud) == loud


def test_a_night_spans_midnight() -> None:
    quiet = QuietHours(22 * 60, 7 * 60)
    late = datetime(2026, 1, 5, 23, 30).timestamp()
    early = datetime(2026, 1, 6, 3, 0).timestamp()
    morning = datetime(2026, 1, 6, 7, 0).timestamp()
    noon = datetime(2026, 1, 6, 12, 0).timestamp()
    assert [occasions.after_quiet(quiet, at) for at in (late, early, morning, noon)] == [
        morning,
        morning,
        morning,
        noon,
    ]


def test_settings_are_inherited_and_checked() -> None:
    table = {
        "quiet": "22:00-07:00",
        "delay_s": 5,
        "channels": {
            "phone": {"kind": "ntfy", "url": "https://ntfy.sh/t", "delay_s": 0.0, "quiet": ""},
            "chat": {"kind": "webhook", "url": "https://c", "secret": "s"},
        },
    }
    phone, chat = read_notify({"notify": table}).channels
    assert (phone.delay_s, phone.quiet) == (0.0, None)
    assert (chat.delay_s, chat.quiet) == (5.0, QuietHours(1320, 420))
    for wrong, says in (
        ({"kind": "ntfy"}, "url must be"),
        ({"kind": "webhook", "url": "https://c"}, "secret is missing"),
        ({"kind": "command"}, "command is missing"),
        ({"kind": "pigeon"}, "must be one of"),
        ({"kind": "command", "command": ["x"], "quiet": "late"}, "22:00-07:00"),
        ({"kind": "command", "command": ["x"], "on": ["sneezes"]}, "is not valid"),
        ({}, "kind is missing"),
    ):
        with pytest.raises(BadInput) as refusal:
            read_notify({"notify": {"channels": {"a": wrong}}})
        assert says in refusal.value.message and "\n" not in refusal.value.message
    assert read_notify({}).channels == ()


def test_the_shapes_that_channels_expect() -> None:
    assert signature("key", b"The quick brown fox jumps over the lazy dog") == (
        "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
    )
    base, message = ntfy_message(
        "https://ntfy.example/sub/topic", {"kind": "asks", "title": "T ü", "text": "x", "url": "https://h"}
    )
    assert base == "https://ntfy.example/sub/" and message["topic"] == "topic"
    assert message["click"] == "https://h" and message["title"] == "T ü"
