"""Ways to damage a transcript of lines, and values that no field should have."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

DEEP: Any = []
for _ in range(150):
    DEEP = [DEEP]
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    10**30,
    1.5,
    "",
    "\ud800",
    "x\0y",
    [],
    [None],
    {},
    {"text": 1},
    [[]],
    DEEP,
]


def wrong_types(lines: list[bytes]) -> Iterator[bytes]:
    """The file with one field of one record changed into each odd value, or left out."""
    for number, line in enumerate(lines):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        for path in list(paths(record)):
            for odd in (*ODD, ...):
                changed = copy.deepcopy(record)
                put(changed, path, odd)
                yield b"".join([*lines[:number], json.dumps(changed).encode() + b"\n", *lines[number + 1 :]])


def paths(value: Any) -> Iterator[tuple[Any, ...]]:
    """The way to each field."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (key,)
        for rest in paths(below):
            yield (key, *rest)


def put(record: Any, path: tuple[Any, ...], odd: Any) -> None:
    """Change one field; `...` takes it out."""
    for key in path[:-1]:
        record = record[key]
    if odd is ...:
        del record[path[-1]]
    else:
        record[path[-1]] = odd


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """A file after some accidents."""
    for _ in range(draw(st.integers(1, 4))):
        content = draw(st.sampled_from([_flip, _cut, _drop, _swap, _double, _glue, _nuls, _insert]))(
            draw, content
        )
    return content


def _flip(draw: st.DrawFn, content: bytes) -> bytes:
    if not content:
        return content
    place = draw(st.integers(0, len(content) - 1))
    return content[:place] + bytes([content[place] ^ 1 << draw(st.integers(0, 7))]) + content[place + 1 :]


def _cut(draw: st.DrawFn, content: bytes) -> bytes:
    return content[: draw(st.integers(0, len(content)))]


def _drop(draw: st.DrawFn, content: bytes) -> bytes:
    begin = draw(st.integers(0, len(content)))
    return content[:begin] + content[begin + draw(st.integers(0, 400)) :]


def _swap(draw: st.DrawFn, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(draw(st.permutations(lines))) if lines else content


def _double(draw: st.DrawFn, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    if lines:
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(lines)))
    return b"".join(lines)


def _glue(draw: st.DrawFn, content: bytes) -> bytes:
    places = [place for place, byte in enumerate(content) if byte == 10]
    if not places:
        return content
    place = draw(st.sampled_from(places))
    return content[:place] + content[place + 1 :]


def _nuls(draw: st.DrawFn, content: bytes) -> bytes:
    place = draw(st.integers(0, len(content)))
    return content[:place] + b"\0" * draw(st.integers(1, 50)) + content[place:]


def _insert(draw: st.DrawFn, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    odd = draw(
        st.sampled_from(
            [
                b"[" * 5000,
                b'{"a":' * 5000,
                b"null",
                b'{"type":"' + b"9" * 3000,
                b'{"n":' + b"9" * 5000 + b"}",
                b'{"x":1e999}',
                b"\xff\xfe",
                b'{"timestamp":NaN}',
                b'"text"',
                b"{}",
                b"\xef\xbb\xbf{}",
                b"\r",
            ]
        )
    )
    lines.insert(draw(st.integers(0, len(lines))), odd + draw(st.sampled_from([b"\n", b""])))
    return b"".join(lines)
