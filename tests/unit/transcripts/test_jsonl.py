"""Lines of a transcript after accidents: what is whole is given, and nothing raises."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.event import check
from holdfast.model.json_codec import encode
from holdfast.transcripts import jsonl
from holdfast.transcripts.jsonl import LONGEST, JsonlLine
from tests.support.transcript_damage import damaged

WHOLE = b"".join(json.dumps({"id": n, "text": "é" * n, "in": {"a": [{}]}}).encode() + b"\n" for n in range(8))
STARTS = (b'{"id":',)


def read(content: bytes, starts: tuple[bytes, ...] = STARTS) -> list[JsonlLine]:
    return list(jsonl.read(io.BytesIO(content), starts))


def told(content: bytes) -> list[Any]:
    return [line.value if line.problem in (None, "glued_lines") else line.problem for line in read(content)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b'\n \n{"id":1}\n\r\n', [{"id": 1}]),
        (b'{"id":1}', [{"id": 1}]),
        (b'{"id":1}\r\n', [{"id": 1}]),
        (b'\xef\xbb\xbf{"id":1}\n', [{"id": 1}]),
        (b'{"id":1}\n{"id":2', [{"id": 1}, "torn_tail"]),
        (b'{"id":1}\n{"id":2\n', [{"id": 1}, "bad_line"]),
        (b'{"id":1}{"id":2} {"id":3}\n', [{"id": 1}, {"id": 2}, {"id": 3}]),
        (b'{"id":1,"a":{"b{"id":2}\n', ["bad_line", {"id": 2}]),
        (b'{"id":1,"a":{"b":2}\n', ["bad_line"]),
        (b'{"id":1,"a":[{"id":2},{"id":3}\n', ["bad_line", {"id": 3}]),  # cannot be told apart
        (b'{"id":1,"a":[{"id":2},{"id":3}', ["torn_tail"]),
        (b'{"id":1,"a":[{"id":2},{"id":3},\n', ["bad_line"]),
        (b'{"id":1}{"id":2,"to\n', [{"id": 1}, "bad_line"]),
        (b'{"id":1}{"id":2,"to', [{"id": 1}, "torn_tail"]),
        (b'{"id":1}\n\0\0\0\0', [{"id": 1}, "nul_tail"]),
        (b'{"id":1}\0\0\0', [{"id": 1}, "nul_tail"]),
        (b'{"id":1\0\0', ["bad_line", "nul_tail"]),
        (b'\0\0{"id":1}\n', ["bad_line", {"id": 1}]),
        (b'[1]\nnull\n"x"\n', ["bad_line", "bad_line", "bad_line"]),
        (b'{"id":"\xff"}\n{"id":1}\n', ["bad_line", {"id": 1}]),
        (b'{"id":NaN}\n{"id":1e999}\n', ["bad_line", "bad_line"]),
        (b'{"id":"\\ud800"}\n', [{"id": "\ud800"}]),
        (b'{"a":' * 500 + b"1" + b"}" * 500 + b"\n", ["bad_line"]),
    ],
)
def test_what_a_file_holds(content: bytes, expected: list[Any]) -> None:
    assert told(content) == expected


def test_pieces_know_where_they_are() -> None:
    content = b'{"id":1}\n{"id":"\xc3\xa9"}{"id":2}junk{"id":3}\n\n{"id":4'
    pieces = [
        (line.number, content[line.offset : line.offset + line.size], line.ended) for line in read(content)
    ]
    assert pieces == [
        (0, b'{"id":1}', True),
        (1, b'{"id":"\xc3\xa9"}', True),
        (1, b'{"id":2}', True),
        (1, b"junk", True),
        (1, b'{"id":3}', True),
        (3, b'{"id":4', False),
    ]


def test_a_line_that_is_too_long_is_passed_over() -> None:
    content = b'{"id":1}\n{"id":"' + b"x" * (LONGEST + 3_000_000) + b'"}\n{"id":2}\n'
    lines = read(content)
    assert [line.value for line in lines] == [{"id": 1}, None, {"id": 2}]
    assert [content[line.offset : line.offset + 7] for line in lines] == [b'{"id":1', b'{"id":"', b'{"id":2']


@pytest.mark.parametrize(
    "content", [b'{"id":' * 300_000, b"\0{" * 300_000, b"{" * 1_000_000, b"}{" * 300_000]
)
def test_rubbish_takes_no_time(content: bytes) -> None:
    begun = time.process_time()
    assert all(line.value is None for line in read(content))
    assert time.process_time() - begun < 3


def test_a_notice_shows_what_was_there() -> None:
    (line,) = read(b"rubb\xffish\n")
    event = jsonl.notice(line, "codex", "id")
    assert event.body["code"] == "bad_line" and event.body["why"] == "not_utf8" and event.body["raw"]
    assert event.origin is not None and event.origin.record_id == "byte:0"


@given(damaged(WHOLE))
def test_whatever_happened_to_a_file(content: bytes) -> None:
    end = 0
    for line in read(content):
        assert line.offset >= end and line.offset + line.size <= len(content)
        end = line.offset + line.size
        if line.value is None:
            event = jsonl.notice(line, "codex", "id")
            check(event)
            encode(event.body)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_what_stands_in_lines_of_its_own_is_always_read(before: bytes, after: bytes) -> None:
    values = [line.value for line in read(before + b'\n{"id":"here"}\n' + after)]
    assert {"id": "here"} in values
