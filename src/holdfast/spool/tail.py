"""Following an agent's stdout: whole lines with their places, in flat memory whatever the agent writes.

What a line means, even whether it is text, is not decided here.
"""

from __future__ import annotations

import hashlib
import os
from itertools import accumulate

import msgspec

MAX_LINE = 16 << 20  # a longer line is told of, not given
HEAD = 2000
CHUNK = 1 << 17  # fits the caches: 1 MiB at a time is slower by a third

CHECKED = 64  # bytes before the next one to read that are compared at each read

TOO_LONG = "too_long"

_AND_NEWLINE = (1).__add__


class Line(msgspec.Struct, frozen=True, gc=False):  # a named tuple takes four times as long to make
    """One line: its bytes without the newline, or what is wrong with it and how it begins."""

    start: int
    end: int  # behind its newline: where the next one starts
    data: bytes | None
    problem: str | None = None
    head: bytes = b""  # with a problem: its first bytes,
    length: int = 0  # all its bytes without the newline,
    sha256: str = ""  # and their digest, so that it can be told from others


class Splitter:
    """Pieces of a stream in, whole lines out."""

    def __init__(self, offset: int = 0, max_line: int = MAX_LINE):
        self.offset = offset  # behind the last whole line
        self._max = max_line
        self._held: list[bytes] = []  # the pieces of a line that has no end yet
        self._size = 0  # of that line
        self._long: _Long | None = None

    def feed(self, data: bytes) -> list[Line]:
        """The lines that end in `data`, which follows what was fed before."""
        cut = data.rfind(b"\n") + 1
        if not cut:
            self._hold(data)
            return []
        lines: list[Line] = []
        first = 0
        if self._size:
            first = data.index(b"\n") + 1
            self._hold(data[: first - 1])
            lines.append(self._take(newline=1))
        lines += self._split(data[first:cut]) if first or cut < len(data) else self._split(data)
        if cut < len(data):
            self._hold(data[cut:])
        return lines

    def finish(self) -> Line | None:
        """What was said after the last newline, if nothing more will be."""
        return self._take(newline=0) if self._size else None

    @property
    def waiting(self) -> int:
        """Bytes of the line that has no end yet."""
        return self._size

    def _split(self, data: bytes) -> list[Line]:
        """Lines of whole ones."""
        if not data:
            return []
        pieces = data.split(b"\n")
        pieces.pop()
        ends = list(accumulate(map(_AND_NEWLINE, map(len, pieces)), initial=self.offset))
        self.offset = ends[-1]
        if len(data) > self._max:
            return list(map(self._judged, ends, ends[1:], pieces))
        if b"\r" in data:
            pieces = [piece.removesuffix(b"\r") for piece in pieces]
        return list(map(Line, ends, ends[1:], pieces))

    def _judged(self, start: int, end: int, piece: bytes) -> Line:
        if len(piece) <= self._max:
            return Line(start, end, piece.removesuffix(b"\r"))
        long = _Long()
        long.add(piece)
        return long.line(start, end)

    def _hold(self, data: bytes) -> None:
        self._size += len(data)
        if self._long is None and self._size > self._max:
            self._long = _Long()
            for piece in self._held:
                self._long.add(piece)
            self._held = []
        if self._long is not None:
            self._long.add(data)
        elif data:
            self._held.append(data)

    def _take(self, newline: int) -> Line:
        start, self.offset = self.offset, self.offset + self._size + newline
        if self._long is not None:
            line = self._long.line(start, self.offset)
        else:
            line = Line(start, self.offset, b"".join(self._held).removesuffix(b"\r" if newline else b""))
        self._held, self._size, self._long = [], 0, None
        return line


class Shrunk(Exception):
    """The file is not what was read: it is shorter, or has other bytes before the place that was reached."""


class Tail:
    """One file that grows, from its first byte.

    `lost`: how many bytes of the stream came before the file's first byte and are not there any more. Offsets
    count the whole stream, so they never go back.
    """

    def __init__(self, path: str, lost: int = 0, max_line: int = MAX_LINE):
        self.path = path
        self._max = max_line
        self._begin(lost)

    def _begin(self, lost: int) -> None:
        self._splitter = Splitter(lost, self._max)
        self._at = 0  # the next byte of the file to read; behind `offset` while a line waits for its end
        self._last = b""  # the bytes before it, by which an overwritten file is noticed

    @property
    def offset(self) -> int:
        """Behind the last line that was given."""
        return self._splitter.offset

    def read(self, limit_bytes: int = CHUNK) -> list[Line]:
        """The next whole lines, from about that many bytes; none only if there is no whole line more now."""
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)  # half the cost of a file object
        try:
            while data := self._next(fd, limit_bytes):
                if lines := self._splitter.feed(data):
                    return lines
        finally:
            os.close(fd)
        return []

    def finish(self) -> Line | None:
        """The last line without its newline, once all is read and nobody writes any more."""
        return self._splitter.finish()

    def behind(self) -> int:
        """Bytes in the file that were not read yet."""
        size = os.stat(self.path).st_size
        if size < self._at:
            raise Shrunk(f"{self.path} had {self._at:,} bytes and has {size:,}")
        return size - self._at

    def restart(self, lost: int) -> None:
        """Go on from the first byte of a file that has shrunk, as byte `lost` of the stream."""
        self._begin(lost)

    def _next(self, fd: int, limit: int) -> bytes:
        before = len(self._last)
        data = os.pread(fd, before + limit, self._at - before)
        if not data.startswith(self._last):
            raise Shrunk(f"{self.path} does not have the bytes any more that were read from it")
        new = data[before:] if before else data
        self._at += len(new)
        self._last = data[-CHECKED:]
        return new


class _Long:
    """A line too long to be held: its beginning, its length, its digest."""

    def __init__(self) -> None:
        self._head = b""
        self._length = 0
        self._hash = hashlib.sha256()

    def add(self, piece: bytes) -> None:
        if len(self._head) < HEAD:
            self._head += piece[: HEAD - len(self._head)]
        self._length += len(piece)
        self._hash.update(piece)

    def line(self, start: int, end: int) -> Line:
        return Line(start, end, None, TOO_LONG, self._head, self._length, self._hash.hexdigest())
