"""One line of stdout: an object that can be stored, or a notice that can be."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.event import NewEvent, Origin, check
from holdfast.model.json_codec import encode
from holdfast.transcripts import jsonl


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (b"plain", "not_json"),
        (b"", "not_json"),
        (b"[1]", "not_json"),
        (b"1", "not_json"),
        (b'{"a":1', "not_json"),
        (b'{"a":NaN}', "not_json"),
        (b'{"a":1e999}', "not_json"),
        (b'{"a":' + b"9" * 5000 + b"}", "not_json"),
        (b"\xff\xfe", "not_utf8"),
        (b'{"a":"\xff"}', "not_utf8"),
        (b"[" * 100_000, "not_json"),
        (b'{"a":' * 195 + b"1" + b"}" * 195, "too_deep"),
    ],
)
def test_what_is_no_object_is_a_notice_that_keeps_the_bytes(given: bytes, code: str) -> None:
    event = jsonl.parse(given)
    assert isinstance(event, NewEvent) and event.kind == "notice"
    assert event.body["code"] == code and event.body["bytes"] == len(given)
    assert len(event.body["text"]) <= jsonl.SHOWN
    if len(given) <= jsonl.KEPT:
        assert base64.b64decode(event.body["raw"]) == given
    else:
        assert "raw" not in event.body


def test_a_line_that_is_too_long_is_not_even_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LONGEST", 100)
    event = jsonl.parse(b'{"a":"' + b"x" * 200 + b'"}')
    assert isinstance(event, NewEvent) and event.body["code"] == "too_long"
    assert jsonl.parse(b'{"a":"' + b"x" * 50 + b'"}') == {"a": "x" * 50}


def test_text_that_was_cut_inside_a_character_is_taken() -> None:
    assert jsonl.parse(b'{"a":"\\ud83d"}') == {"a": "\ud83d"}


def test_the_deepest_object_that_is_taken_can_be_stored_with_room_to_spare() -> None:
    deep = jsonl.parse(b'{"a":' * (jsonl.DEEPEST - 1) + b"1" + b"}" * (jsonl.DEEPEST - 1))
    assert isinstance(deep, dict)
    encode({"input": {"more": [deep]}})


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_every_object_comes_through(value: dict[str, Any]) -> None:
    assert jsonl.parse(json.dumps(value).encode()) == value


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_whatever_is_heard_can_be_stored(data: bytes) -> None:
    heard = jsonl.parse(data)
    if isinstance(heard, NewEvent):
        check(heard)
        encode(heard.body)
    else:
        encode(heard)


@pytest.mark.parametrize("id", ["", None, 7, "a\0b", "\ud800", "x" * 2000])
def test_an_id_that_no_store_can_hold_is_none(id: Any) -> None:
    assert jsonl.storable_id(id) is None
    if isinstance(id, str):
        assert jsonl.origin("a", "n", id) is None


def test_an_origin_needs_a_conversation() -> None:
    assert jsonl.origin("a", None, "r") is None
    assert jsonl.origin("a", "n", "r") == Origin("a", "n", "r")
