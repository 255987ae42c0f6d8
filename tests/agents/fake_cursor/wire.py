"""Protobuf and Connect frames; written apart from the reader under test, so that one checks the other."""

from __future__ import annotations

import struct

END = b"\x02"
DATA = b"\x00"


def varint(number: int) -> bytes:
    """A number of 0 or more."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def number(field: int, value: int) -> bytes:
    """A field that holds a number."""
    return varint(field << 3) + varint(value)


def data(field: int, value: bytes | str) -> bytes:
    """A field that holds bytes or text."""
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def message(field: int, *parts: bytes) -> bytes:
    """A field that holds a message."""
    return data(field, b"".join(parts))


def read(raw: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of a message."""
    found: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(raw, at)
            found.append((key >> 3, value))
            continue
        size = {1: 8, 5: 4}.get(kind, 0)
        if kind == 2:
            size, at = _varint(raw, at)
        found.append((key >> 3, raw[at : at + size]))
        at += size
    return found


def all_of(raw: bytes, field: int) -> list[bytes]:
    """Every value of a field that holds bytes."""
    return [value for found, value in read(raw) if found == field and isinstance(value, bytes)]


def inside(raw: bytes, *path: int) -> bytes:
    """The value at the end of a path of fields; empty if there is none."""
    for field in path:
        raw = next(iter(all_of(raw, field)), b"")
    return raw


def frame(payload: bytes, kind: bytes = DATA) -> bytes:
    """One frame of a Connect stream."""
    return kind + struct.pack(">I", len(payload)) + payload


def unframed(body: bytes) -> bytes:
    """The payload of a body that is one frame."""
    (size,) = struct.unpack(">I", body[1:5])
    return body[5 : 5 + size]


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
