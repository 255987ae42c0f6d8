"""Mirror lines: a record and back, and nothing altered passes for one."""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import timestamps
from holdfast.errors import UnstorableText
from holdfast.model.event import Origin, Record
from holdfast.model.json_codec import encode
from holdfast.store.mirror import format
from tests.contract.test_text import JSON

SESSION = "s0123456789abcde"
TASK = "t0123456789abcde"
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


def origin(names: tuple[str, str, str]) -> str:
    return encode(Origin(*names)).decode()


def body(value: Any) -> str:
    try:
        return encode({"text": value}).decode()
    except UnstorableText:
        return encode({"text": "split"}).decode()


RECORDS = st.builds(
    Record,
    seq=st.integers(1, 2**62),
    kind=st.sampled_from(["user", "assistant", "session", "token", "task", "notice"]),
    at=st.floats(0, 4e9).map(timestamps.stamp),
    task=st.sampled_from([None, TASK]),
    replayed=st.booleans(),
    origin=st.none() | st.tuples(NAMES, NAMES, NAMES).map(origin),
    spool=st.none() | st.integers(0, 2**62),
    last=st.booleans(),
    body=JSON.map(body),
)
RECORD = Record(
    7,
    "assistant",
    "2026-01-31T12:00:00.000001Z",
    TASK,
    True,
    origin(("claude", 'n"\\,"spool":1', "r,\u2028")),
    4096,
    True,
    encode({"text": 'ü\u2028🎉 \ud800 ","body":{},"crc":"00000000"}', "n": [1, None, 0.5]}).decode(),
)


def proven(data: bytes) -> Record | None:
    """The record of a commit's one line, if it proves itself; as a reader of a mirror does it."""
    try:
        record, claimed, covered = format.read(SESSION, data)
    except format.BadLine:
        return None
    return record if claimed == crc32(covered) else None


@given(RECORDS)
def test_a_record_comes_back_the_same(record: Record) -> None:
    data, crc = format.write(SESSION, record)
    assert data.count(b"\n") == 1 and data.endswith(b"\n")
    parsed = format.read(SESSION, data[:-1])
    assert parsed.record == record
    assert (parsed.crc is not None) == record.last
    assert crc == (0 if record.last else crc32(parsed.covered))
    assert format.write(SESSION, parsed.record) == (data, crc)
    shown = json.loads(data)
    assert (shown["seq"], shown["body"]) == (record.seq, json.loads(record.body))


@given(st.lists(RECORDS, min_size=1, max_size=4))
def test_the_last_line_of_a_commit_vouches_for_all_of_it(records: list[Record]) -> None:
    records = [r._replace(last=i == len(records) - 1) for i, r in enumerate(records)]
    crc, covered, claimed = 0, 0, None
    for record in records:
        data, crc = format.write(SESSION, record, crc)
        parsed = format.read(SESSION, data[:-1])
        covered, claimed = crc32(parsed.covered, covered), parsed.crc
    assert crc == 0 and claimed == covered


def test_every_truncation_is_noticed() -> None:
    data = format.write(SESSION, RECORD)[0][:-1]
    assert proven(data) == RECORD
    for end in range(len(data)):
        assert proven(data[:end]) is None, end
        assert proven(data[end + 1 :]) is None, end
        assert proven(data[:end] + data[end + 1 :]) is None, end


def test_every_flipped_bit_is_noticed() -> None:
    data = format.write(SESSION, RECORD)[0][:-1]
    for i in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[i] ^= 1 << bit
            assert proven(bytes(flipped)) is None, (i, bit)


@settings(max_examples=200)
@given(RECORDS, st.data())
def test_no_other_bytes_pass_for_a_record(record: Record, data: st.DataObject) -> None:
    whole = format.write(SESSION, record._replace(last=True))[0][:-1]
    at = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.integers(0, 8))
    junk = data.draw(st.binary(max_size=8))
    changed = whole[:at] + junk + whole[at + length :]
    if changed != whole:
        assert proven(changed) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"seq":7', '"seq":"7"'),
        ('"seq":7', '"seq":7.0'),
        ('"seq":7', '"seq":[7]'),
        ('"seq":7', '"seq":true'),
        ('"seq":7', '"seq": 7'),
        ('"spool":4096', '"spool":[4096]'),
        ('"spool":4096', '"spool":4096.5'),
        ('"spool":4096', '"spool":true'),
        ('"spool":4096', '"spool":"x"'),
        ('"replayed":true', '"replayed":1'),
        ('"kind":"assistant"', '"kind":["assistant"]'),
        ('"kind":"assistant"', '"kind":"a\\"b"'),
        ('"at":"2026', '"at":"yesterday", "x":"2026'),
        ('"at":"2026-01-31T12:00:00.000001Z"', '"at":5'),
        ('"at":"2026-01-31T12:00:00.000001Z"', '"at":null'),
        (f'"task":"{TASK}"', '"task":5'),
        ('"session"', '"sess"'),
    ],
)
def test_what_we_would_not_have_written_is_no_record(old: str, new: str) -> None:
    """Also with a checksum that fits, as another program could have written it."""
    text = format.write(SESSION, RECORD)[0][:-1].decode()
    assert old in text
    covered = text.replace(old, new, 1).rsplit(',"crc"', 1)[0].encode()
    data = b'%b,"crc":"%08x"}' % (covered, crc32(covered))
    with pytest.raises(format.BadLine):
        format.read(SESSION, data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "torn"),
        (b"{", "torn"),
        (b"\xff", "torn"),
        (b"[" * 100_000, "torn"),
        (b"[1]", "not_a_record"),
        (b"null", "not_a_record"),
        (b"{}", "not_a_record"),
        (b'{"session":"other"}', "wrong_session"),
        (b'{"session":5}', "wrong_session"),
        (b'{"session":"%b"}' % SESSION.encode(), "not_a_record"),
    ],
)
def test_a_bad_line_has_a_word_for_it(data: bytes, reason: str) -> None:
    with pytest.raises(format.BadLine) as refusal:
        format.read(SESSION, data)
    assert refusal.value.reason == reason
