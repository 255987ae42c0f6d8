"""JSON in and out: the same back, or refused."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given

from holdfast.errors import TooLarge, UnstorableText
from holdfast.model.json_codec import MAX_DEPTH, check_plain, decode, decode_as, encode, text
from holdfast.model.session import Link, Worktree
from tests.contract.test_text import JSON, PAIR


def nested(depth: int) -> Any:
    value: Any = 1
    for i in range(depth):
        value = [value] if i % 2 else {"a": value}
    return value


@given(JSON)
@example("\ud83d\ude00")
@example(["\ud83d", "\ude00"])
@example({"\ud800": None})
def test_what_is_taken_comes_back_the_same(value: Any) -> None:
    try:
        data = encode(value)
    except UnstorableText:
        assert PAIR.search(json.dumps(value))
        return
    assert json.dumps(decode(data)) == json.dumps(value)
    assert json.dumps(json.loads(data)) == json.dumps(value)  # any other reader agrees
    assert b"\n" not in data
    data.decode()  # a database's text


@given(JSON)
def test_the_short_way_is_the_same_as_the_long_one(value: Any) -> None:
    try:
        wanted = encode(value).decode()
    except UnstorableText:
        with pytest.raises(UnstorableText):
            text(value)
        return
    assert text(value) == wanted


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_no_json_number_is_is_refused_wherever_it_stands(number: float) -> None:
    for value in (number, [number], {"a": [None, {"b": number}]}, ["\ud800", number], (number,)):
        with pytest.raises(UnstorableText):
            encode(value)
        with pytest.raises(UnstorableText):
            text({"fine": value})
    assert encode({"null": None, "text": "NaN"}) == b'{"null":null,"text":"NaN"}'


def test_a_limit_is_a_limit() -> None:
    assert encode("x" * 8, limit=10) == b'"xxxxxxxx"'
    with pytest.raises(TooLarge):
        encode("x" * 9, limit=10)
    with pytest.raises(TooLarge):
        encode("\ud800" * 2, limit=10)  # as it is stored, six bytes each


def test_depth_is_counted_in_containers_not_in_brackets() -> None:
    for value in (nested(MAX_DEPTH), "[{" * 500, [[i] for i in range(500)], {"a": ["{"] * 500}):
        assert decode(encode(value)) == value
        assert decode(text(value)) == value
    for depth in (MAX_DEPTH + 1, 400, 900, 990, 3000):
        for value in (nested(depth), [nested(depth - 1), "\ud800"], [nested(depth - 1), None]):
            with pytest.raises(UnstorableText):
                encode(value)
            with pytest.raises(UnstorableText):
                text(value)


def test_what_is_no_json_at_all_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (object(), {"a": object()}, circle, 10**5000, {object(): 1}, 1j):
        with pytest.raises(UnstorableText):
            encode(value)


def test_a_struct_comes_back_with_lone_surrogates_in_it() -> None:
    tree = Worktree("/w\ud800", "b", "/r\u2028", "t")
    assert decode_as(encode(tree), Worktree) == tree
    with pytest.raises(msgspec.ValidationError):
        decode_as(b'{"session":5,"relation":"fork"}', Link)
    with pytest.raises(msgspec.ValidationError):
        decode_as(b'{"session":"\\ud800"}', Link)
    with pytest.raises(ValueError):
        decode_as(b'{"session":', Link)


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":1', b"nul", b'"\xff"', b"\xff\xfe", b"[1]]"])
def test_what_is_no_json_is_not_read_as_something(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data)


def test_header_texts_are_what_every_store_can_search() -> None:
    for fine in (None, "", "ü👩‍👩‍👧\u2028\x01", "x" * 4096):
        check_plain("title", fine)
    for bad in ("\0", "a\0b", "\ud800", "\ud83d\ude00", 5, b"x"):
        with pytest.raises(UnstorableText, match="title"):
            check_plain("title", bad)  # type: ignore[arg-type]
    for long in ("x" * 4097, "ü" * 2049):
        with pytest.raises(TooLarge, match="title"):
            check_plain("title", long)
