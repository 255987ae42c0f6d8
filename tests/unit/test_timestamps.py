"""The one form of time."""

from __future__ import annotations

import calendar
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import timestamps

MOMENTS = st.floats(0, 4_102_444_800)  # up to 2100


@given(MOMENTS)
def test_a_time_comes_back_within_a_microsecond_or_two(moment: float) -> None:
    assert abs(timestamps.parse(timestamps.stamp(moment)) - moment) < 2e-6


@given(MOMENTS, MOMENTS)
def test_the_order_of_texts_is_the_order_of_times(one: float, other: float) -> None:
    if one <= other:
        assert timestamps.stamp(one) <= timestamps.stamp(other)


@given(MOMENTS)
def test_parsing_by_hand_agrees_with_the_calendar(moment: float) -> None:
    text = timestamps.stamp(moment)
    assert timestamps.is_stamp(text) and len(text) == 27
    assert int(timestamps.parse(text)) == calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))


def test_now_is_now_and_the_next_second_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    assert abs(timestamps.parse(timestamps.now()) - time.time()) < 5
    assert timestamps.stamp(59.5) == "1970-01-01T00:00:59.500000Z"
    assert timestamps.stamp(60.0) == "1970-01-01T00:01:00.000000Z"
    assert timestamps.stamp(59.5) == "1970-01-01T00:00:59.500000Z"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-31T12:00:00Z",
        "2026-01-31 12:00:00.000000Z",
        "2026-01-31T12:00:00.000000+",
        "2026-01-31T12:00:00.00000Z",
        "2026-01-31T12:00:00.0000000Z",
        "2026-13-01T12:00:00.000000Z",
        "2026-01-32T12:00:00.000000Z",
        "2026-01-00T12:00:00.000000Z",
        "2026-01- 1T12:00:00.000000Z",
        "2026-01-31T24:00:00.000000Z",
        "2026-01-31T12:60:00.000000Z",
        "2026-01-31T12:00:00.٣٣٣٣٣٣Z",
        "２026-01-31T12:00:00.000000Z",
        '2026-01-31T12:00:00.000000"',
        "2026-01-31T12:00:00.000000Z\n",
        None,
        5,
    ],
)
def test_other_forms_are_not_it(text: Any) -> None:
    assert not timestamps.is_stamp(text)
