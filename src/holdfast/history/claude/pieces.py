"""The pieces of a transcript file: records, and what is none, one at a time and as they are written."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

from holdfast.drive import line as wire
from holdfast.history import jsonl
from holdfast.history.claude.kinds import CHAIN
from holdfast.history.claude.record import Record, decode, lenient

# How a record of the conversation begins, so that a whole one is found behind a torn one, and no block
# inside it. Few, because each is looked for in all of a bad line.
STARTS = (
    b'{"parentUuid"',
    b'{"logicalParentUuid"',
    *(b'{"type":"%s"' % name.encode() for name in sorted(CHAIN)),
)

_PART = 1 << 20


class Piece(msgspec.Struct, gc=False):
    """A record, or something that is none."""

    offset: int
    raw: bytes
    record: Record | None
    odd: jsonl.Line | None = None  # where it is no record, or is one that was glued to something


def read(file: BinaryIO, size: int, decode: Callable[[bytes], Any] = decode) -> Iterator[Piece]:
    """The pieces of a file from its first byte; none that begins at `size` or later.

    With the decoder of heads these are all that a usual line gives.
    """
    offset = number = 0
    readline = file.readline
    longest = wire.LONGEST + 1
    while offset < size and (raw := readline(longest)):
        try:
            yield Piece(offset, raw, decode(raw))
        except (ValueError, RecursionError):
            if len(raw) == longest and not raw.endswith(b"\n"):
                length = longest + _skip(file)
                yield too_long(offset, length, number)
                offset += length - longest
            else:
                yield from odd(raw, offset, number)
        offset += len(raw)
        number += 1


def odd(raw: bytes, offset: int, number: int) -> Iterator[Piece]:
    """The pieces of a line that is not one record of the usual kind."""
    for line in jsonl.read(io.BytesIO(raw), STARTS, offset):
        part = raw[line.offset - offset :][: line.size]
        told = msgspec.structs.replace(line, number=number)
        if line.value is None:
            yield Piece(line.offset, part, None, told)
        else:
            yield Piece(line.offset, part, lenient(line.value), None if line.problem is None else told)


def too_long(offset: int, size: int, number: int) -> Piece:
    """A line that no event could hold, and that is not read."""
    said = wire.notice(jsonl.BAD, f"a line of {size:,} bytes is too long to be read", bytes=size)
    line = jsonl.Line(number=number, offset=offset, size=size, problem=jsonl.BAD, odd=said)
    return Piece(offset, b"", None, line)


def _skip(file: BinaryIO) -> int:
    """Past the rest of a line; how many bytes that were."""
    size = 0
    while part := file.readline(_PART):
        size += len(part)
        if part.endswith(b"\n"):
            break
    return size
