"""JSON in and out such that every text Python can hold comes back the same, or is refused.

msgspec does almost all of it. It refuses lone surrogates, which agents do send (a string cut inside
an emoji), so those take the standard library's escapes; and it writes NaN as null, which we refuse.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from holdfast.errors import TooLarge, UnstorableText

T = TypeVar("T")

MAX_BODY = 64 * 1024 * 1024  # bytes of one record's JSON
MAX_DEPTH = 200  # of nested arrays and objects; far below where a reader's stack would end

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder()


def encode(value: Any, limit: int = MAX_BODY) -> bytes:
    """Compact JSON of `value`; refused if it would not read back the same or exceeds `limit`."""
    try:
        data = _encode(value)
    except UnicodeEncodeError:
        _check_depth(value)
        data = _encode_surrogates(value)
    except (TypeError, ValueError, RecursionError) as problem:
        raise UnstorableText(f"that value is no JSON: {problem}") from None
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        _check_depth(value)
    if len(data) > limit:
        raise TooLarge(f"{len(data):,} bytes of JSON are more than the {limit:,} that are taken")
    if b"null" in data and _has_odd_float(value):
        raise UnstorableText("NaN and infinity are no JSON")
    return data


def text(value: Any) -> str:
    """`encode` as text; the short way for what is nearly always an object of a few strings."""
    if type(value) is not dict:
        return encode(value).decode()
    for inner in value.values():
        if type(inner) is not str:
            return encode(value).decode()
    return flat_text(value)


def flat_text(value: Any) -> str:
    """`encode` as text of what has nothing but strings inside: no depth and no odd number to look for."""
    try:
        data = _encode(value)
    except (TypeError, ValueError):  # a lone surrogate, or a key that is no string
        return encode(value).decode()
    return data.decode() if len(data) <= MAX_BODY else encode(value).decode()


def decode(data: bytes | str) -> Any:
    """What `encode` was given."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError:
        return json.loads(data)  # lone surrogates, or truly no JSON: then ValueError


def decode_as(data: bytes | str, shape: type[T]) -> T:
    """What `encode` was given, as that Struct."""
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(data), type=shape)


def check_plain(what: str, text: str | None, limit: int = 4096) -> None:
    """Refuse a header text (key, title, path, id…) that not every store can hold and search."""
    if text is None:
        return
    if not isinstance(text, str):
        raise UnstorableText(f"{what} must be text, not {type(text).__name__}")
    if "\0" in text:
        raise UnstorableText(f"{what} has a NUL character in it")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UnstorableText(f"{what} is not valid Unicode (a lone surrogate)") from None
    if size > limit:
        raise TooLarge(f"{what} has {size:,} bytes; {limit:,} are taken")


def is_deep(value: Any, most: int) -> bool:
    """Whether more than so many arrays and objects are inside each other."""
    level = [value]
    for _ in range(most + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _encode_surrogates(value: Any) -> bytes:
    plain = msgspec.to_builtins(value)
    try:
        data = json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError as problem:
        raise UnstorableText(f"that value is no JSON: {problem}") from None
    # A high surrogate followed by a low one would come back as one character.
    if json.loads(data) != plain:
        raise UnstorableText("that text holds split surrogate pairs and would not come back the same")
    return data.encode("ascii")


def _check_depth(value: Any) -> None:
    if is_deep(value, MAX_DEPTH):
        raise UnstorableText(f"more than {MAX_DEPTH} arrays and objects inside each other are not taken")


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    return ()


def _has_odd_float(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return any(_has_odd_float(inner) for inner in _inside(value))
