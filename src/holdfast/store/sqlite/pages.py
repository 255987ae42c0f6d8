"""Reads rows from the leaf pages of a SQLite file, without its trees, its schema or its length.

For a database with damaged inner pages or a damaged first page: SQLite cannot find the intact leaf pages.
The format: https://sqlite.org/fileformat2.html. Invalid cells are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

TABLE_LEAF, INDEX_LEAF = 0x0D, 0x0A
USUAL_PAGE = 4096
WAL_HEADER, FRAME_HEADER = 32, 24
INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
LARGEST = 1 << 30  # bytes; a longer row is taken for damage

Value = bytes | int | float | None  # texts are bytes: they may not be UTF-8


class LeafRow(NamedTuple):
    """A row of a leaf page; `rowid` is None in an index."""

    rowid: int | None
    values: list[Value]


class PageFile:
    """The pages of a database file, with the committed pages of its WAL on top."""

    def __init__(self, path: str):
        self._file = open(path, "rb")  # noqa: SIM115 - closed by `close`
        self.size = _page_size(self._file.read(100))
        self._pages = -(-os.path.getsize(path) // self.size)
        self._wal = _wal_pages(path + "-wal", self.size)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def rows(self) -> Iterator[LeafRow]:
        """All rows of all leaves that look like some, in the file and in its WAL."""
        for number in range(1, self._pages + 1):
            yield from self._leaf(self._read(number), 100 if number == 1 else 0)
        for data in self._wal.values():
            yield from self._leaf(data, 0)

    def _read(self, number: int) -> bytes:
        self._file.seek((number - 1) * self.size)
        return self._file.read(self.size)

    def _leaf(self, page: bytes, start: int) -> Iterator[LeafRow]:
        kind = page[start] if len(page) > start else 0
        cells = int.from_bytes(page[start + 3 : start + 5], "big")
        first = start + 8
        if kind not in (TABLE_LEAF, INDEX_LEAF) or first + 2 * cells > self.size:
            return
        for i in range(cells):
            offset = int.from_bytes(page[first + 2 * i : first + 2 * i + 2], "big")
            try:
                yield self._cell(page, offset, kind)
            except (ValueError, IndexError):
                continue  # one damaged cell; its neighbors may be whole

    def _cell(self, page: bytes, offset: int, kind: int) -> LeafRow:
        length, at = _varint(page, offset)
        rowid = None
        if kind == TABLE_LEAF:
            rowid, at = _varint(page, at)
        if not 0 < length <= LARGEST:
            raise ValueError("invalid length")
        return LeafRow(rowid, _values(self._payload(page, at, length, kind)))

    def _payload(self, page: bytes, at: int, length: int, kind: int) -> bytes:
        usable = self.size
        largest = usable - 35 if kind == TABLE_LEAF else (usable - 12) * 64 // 255 - 23
        if length <= largest:
            return _exactly(page[at : at + length], length)
        smallest = (usable - 12) * 32 // 255 - 23
        local = smallest + (length - smallest) % (usable - 4)
        local = local if local <= largest else smallest
        parts = [_exactly(page[at : at + local], local)]
        left, following = length - local, int.from_bytes(page[at + local : at + local + 4], "big")
        while left:
            if not 0 < following <= max(self._pages, max(self._wal, default=0)):
                raise ValueError("invalid overflow page")
            more = self._wal.get(following) or self._read(following)
            parts.append(_exactly(more[4 : 4 + left], min(left, usable - 4)))
            left -= len(parts[-1])
            following = int.from_bytes(more[:4], "big")
        return b"".join(parts)


def _exactly(data: bytes, length: int) -> bytes:
    if len(data) != length:
        raise ValueError("beyond the end of the page")
    return data


def _page_size(header: bytes) -> int:
    size = int.from_bytes(header[16:18], "big")
    size = 65536 if size == 1 else size
    return size if size >= 512 and size & (size - 1) == 0 else USUAL_PAGE


def _wal_pages(path: str, size: int) -> dict[int, bytes]:
    """The newest version of each page in a WAL, up to its last commit."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return {}
    salt, committed, pending = data[16:24], dict[int, bytes](), dict[int, bytes]()
    for at in range(WAL_HEADER, len(data) - FRAME_HEADER - size + 1, FRAME_HEADER + size):
        if data[at + 8 : at + 16] != salt:
            continue  # from an earlier cycle, whose pages are in the file
        pending[int.from_bytes(data[at : at + 4], "big")] = data[at + FRAME_HEADER : at + FRAME_HEADER + size]
        if data[at + 4 : at + 8] != b"\0\0\0\0":
            committed |= pending
            pending = {}
    return committed


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(8):
        byte = data[at + i]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >> 63 else value, at + 9


def _values(payload: bytes) -> list[Value]:
    header, at = _varint(payload, 0)
    types = []
    while at < header:
        kind, at = _varint(payload, at)
        types.append(kind)
    if at != header:
        raise ValueError("invalid header")
    values = []
    for kind in types:
        value, at = _value(payload, at, kind)
        values.append(value)
    if at != len(payload):
        raise ValueError("longer than its columns")
    return values


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, at
    if kind in (8, 9):
        return kind - 8, at
    if kind <= 6:
        end = at + INTEGER_BYTES[kind]
        return int.from_bytes(_exactly(payload[at:end], end - at), "big", signed=True), end
    if kind == 7:
        return 0.0, at + 8  # no column of ours is a float
    if kind < 12:
        raise ValueError("no such type")
    end = at + (kind - 12) // 2
    return _exactly(payload[at:end], end - at), end
