"""When output is said to kill the hub that reads it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.spool.reader_deaths import (
    MAX_DEATHS,
    SIZE,
    DeathRecord,
    ReaderMarks,
    begin_line,
    count_death,
    decide,
    finish_lines,
)


@pytest.mark.parametrize(
    ("left", "counted", "decision"),
    [
        (DeathRecord(), DeathRecord(), "read"),
        (DeathRecord(reading=0), DeathRecord(1, 0), "read"),
        (DeathRecord(reading=70), DeathRecord(1, 70), "read"),
        (DeathRecord(1, 70), DeathRecord(1, 70), "read"),  # killed before it read, or while it waited
        (DeathRecord(1, 70, 70), DeathRecord(2, 70), "wait"),
        (DeathRecord(2, 70, 70), DeathRecord(3, 70), "set_aside"),
        (DeathRecord(3, 70), DeathRecord(3, 70), "set_aside"),  # again, while its agent still runs
        (DeathRecord(2, 70, 30), DeathRecord(1, 30), "read"),  # died before that line
        (DeathRecord(2, 70, 90), DeathRecord(1, 90), "read"),  # died behind it
        (DeathRecord(2, 0, 0), DeathRecord(3, 0), "set_aside"),
    ],
)
def test_what_a_dead_hub_left_is_counted(left: DeathRecord, counted: DeathRecord, decision: str) -> None:
    assert count_death(left) == counted
    assert decide(counted) == decision


@pytest.mark.parametrize(
    ("record", "end", "finished"),
    [
        (DeathRecord(2, 70, 30), 70, DeathRecord(2, 70)),  # the suspected line is still to come
        (DeathRecord(2, 70, 70), 71, DeathRecord()),
        (DeathRecord(2, 70, 30), 120, DeathRecord()),
        (DeathRecord(0, 0, 0), 30, DeathRecord()),
    ],
)
def test_a_line_that_a_hub_gets_past_is_not_suspected(
    record: DeathRecord, end: int, finished: DeathRecord
) -> None:
    assert finish_lines(record, end) == finished


@settings(deadline=None)
@given(lines=st.lists(st.integers(0, 9), max_size=30))
def test_deaths_count_only_in_a_row_and_at_one_line(lines: list[int]) -> None:
    """Hubs die at these lines, and each reads all lines before: exactly three at one line set it aside."""
    record, row = DeathRecord(), 0
    for number, line in enumerate(lines):
        for before in range(line):
            record = finish_lines(begin_line(record, before * 10), before * 10 + 10)
        record = count_death(begin_line(record, line * 10))
        row = row + 1 if number and lines[number - 1] == line else 1
        assert record == DeathRecord(row, line * 10)
        assert (decide(record) == "set_aside") == (row >= MAX_DEATHS)


def test_the_file_outlives_the_reader_and_never_grows(tmp_path: Path) -> None:
    path = str(tmp_path / "taken")
    ReaderMarks.create(path)
    for deaths in range(3):
        marks = ReaderMarks(path)
        assert marks.take_over() == (DeathRecord(deaths, 70) if deaths else DeathRecord())
        marks.begin(30)
        marks.finish(70)
        marks.begin(70)
        assert os.path.getsize(path) == SIZE
    alive = ReaderMarks(path)
    assert alive.take_over() == DeathRecord(3, 70)
    alive.begin(70)
    alive.close()  # it gave up, and did not die
    assert ReaderMarks(path).take_over() == DeathRecord(3, 70)


@pytest.mark.parametrize("content", [b"3              \n", b"", b"\0" * SIZE, b"1 2 x"])
def test_what_an_older_version_or_a_power_cut_left_counts_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "taken"
    path.write_bytes(content)
    assert ReaderMarks(str(path)).take_over() == DeathRecord()


def test_a_folder_of_version_1_has_no_record(tmp_path: Path) -> None:
    marks = ReaderMarks(str(tmp_path / "taken"))
    assert marks.take_over() == DeathRecord()
    marks.begin(10)
    marks.finish(20)
    marks.close()
    assert not os.listdir(tmp_path)
