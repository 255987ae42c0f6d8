"""How are protobuf messages read without their schema?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10  # bytes
DEEPEST = 8  # nesting limit of `strings`


class ProtobufField(NamedTuple):
    """One field of a message: an integer for a varint, else its bytes."""

    number: int
    value: int | bytes


class NotProtobuf(ValueError):
    """These bytes are not a message."""


def fields(data: bytes) -> Iterator[ProtobufField]:
    """Yield the fields in order; raises NotProtobuf after the last whole one."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise NotProtobuf("a field has the number 0")
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield ProtobufField(number, value)
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise NotProtobuf(f"a field has the unknown kind {kind}")
        if size > end - at:
            raise NotProtobuf("a field exceeds the data")
        yield ProtobufField(number, data[at : at + size])
        at += size


class ProtobufMessage:
    """The fields of a message; a truncated message has the fields before the cut."""

    def __init__(self, data: bytes):
        self.broken = False
        self._values: dict[int, list[int | bytes]] = {}
        try:
            for number, value in fields(data):
                self._values.setdefault(number, []).append(value)
        except NotProtobuf:
            self.broken = True

    @property
    def numbers(self) -> list[int]:
        """The field numbers that are set, each once, in order."""
        return list(self._values)

    def many(self, number: int) -> list[bytes]:
        """All values of a repeated bytes field."""
        return [value for value in self._values.get(number, ()) if isinstance(value, bytes)]

    def one(self, number: int) -> bytes | None:
        """The value of a bytes field; the last one counts, as in protobuf."""
        values = self.many(number)
        return values[-1] if values else None

    def text(self, number: int) -> str:
        """The value of a text field; empty if it is not set."""
        return (self.one(number) or b"").decode(errors="replace")

    def texts(self, number: int) -> list[str]:
        """All values of a repeated text field."""
        return [value.decode(errors="replace") for value in self.many(number)]

    def number(self, number: int) -> int | None:
        """The value of an integer field, signed; None if it is not set."""
        values = [value for value in self._values.get(number, ()) if isinstance(value, int)]
        return None if not values else _signed(values[-1])

    def inside(self, number: int) -> ProtobufMessage | None:
        """The message in a field."""
        data = self.one(number)
        return None if data is None else ProtobufMessage(data)

    def strings(self, deepest: int = DEEPEST) -> list[str]:
        """Every text in it, at any depth, where no schema says which fields are text."""
        texts = []
        for values in self._values.values():
            for value in values:
                if not isinstance(value, bytes) or not value:
                    continue
                if (text := _readable(value)) is not None:
                    texts.append(text)
                elif deepest > 0:
                    texts += ProtobufMessage(value).strings(deepest - 1)
        return texts


def _readable(value: bytes) -> str | None:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c in "\n\r\t" for c in text) else None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _LONGEST_VARINT, 7):
        if at >= len(data):
            raise NotProtobuf("a number is truncated")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise NotProtobuf("a number has more than ten bytes")
