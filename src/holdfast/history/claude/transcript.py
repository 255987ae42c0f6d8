"""A transcript file: its records in logical order, with little more in memory than the one that is read."""

from __future__ import annotations

import io
import os
from collections.abc import Generator, Iterator
from functools import cached_property
from itertools import chain
from types import TracebackType

from holdfast.drive import line as wire
from holdfast.history import jsonl
from holdfast.history.claude import pieces as parts
from holdfast.history.claude.index import Index, index
from holdfast.history.claude.order import logical
from holdfast.history.claude.pieces import STARTS, Piece, odd, too_long
from holdfast.history.claude.record import Record, decode, decode_head, lenient
from holdfast.history.claude.stretch import Seen, Stretch


class Transcript:
    """One file as it was when it was opened; what a live agent adds meanwhile is not read."""

    def __init__(self, path: str):
        """Open it; FileNotFoundError and its like are the caller's."""
        self._path = path
        self._file = open(path, "rb")  # noqa: SIM115
        self.size = os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> Transcript:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._file.close()

    @cached_property
    def index(self) -> Index:
        """Read once for all that asks for it."""
        with open(self._path, "rb") as file:
            return index(parts.read(file, self.size, decode_head))

    def answered(self, call: str) -> bool:
        """Whether a result for that call is anywhere in it."""
        return hash(call) in self.index.results

    def record(self, offset: int) -> Record | None:
        """The record that begins there, if a store would take it."""
        self._file.seek(offset)
        raw = self._file.readline(wire.LONGEST)
        values = (line.value for line in jsonl.read(io.BytesIO(raw), STARTS) if line.value is not None)
        value = next(values, None)
        return None if value is None else lenient(value)

    def pieces(self) -> Iterator[Piece]:
        """The pieces as they are written."""
        self._file.seek(0)
        return parts.read(self._file, self.size)

    def in_order(self) -> Iterator[Piece]:
        """The pieces in logical order, a record that is there twice only once.

        A file is nearly always written in that order, but for a few records here and there, and is then
        read once from its beginning to its end.
        """
        seen = Seen()
        pieces: Iterator[Piece] | None = self.pieces()
        while pieces is not None:
            pieces = yield from self._ordered(pieces, seen)

    def _ordered(self, pieces: Iterator[Piece], seen: Seen) -> Generator[Piece, None, Iterator[Piece] | None]:
        """As far as it goes in one way; what is then still to be gone through, if anything."""
        for piece in pieces:
            if (record := piece.record) is not None and (uuid := record.uuid) is not None:
                above = record.parent_uuid or record.logical_parent_uuid
                if above is not None and above not in seen.young and above not in seen.old:
                    indexed = "index" in self.__dict__
                    if not indexed or self.index.is_behind(above, uuid):
                        return (yield from self._near(piece, uuid, pieces, seen))
                    # Else it is far before, or nowhere.
                    if not self.index.is_first(uuid, piece.offset):
                        continue
                if not seen.add(uuid):
                    continue
            yield piece
        return None

    def _near(
        self, first: Piece, uuid: str, pieces: Iterator[Piece], seen: Seen
    ) -> Generator[Piece, None, Iterator[Piece] | None]:
        """From a record on whose parent may stand behind it."""
        known = self.index if "index" in self.__dict__ else None
        stretch = Stretch(first)
        if stretch.find(pieces, seen, known):
            yield from stretch.in_order(seen)
            return pieces
        if any(self.index.is_behind(wanted, uuid) for wanted in stretch.wanted):
            yield from self._rest(first.offset)
            return None
        return chain(stretch.pieces, pieces)  # once more, now that there is an index

    def _rest(self, begin: int) -> Iterator[Piece]:
        """From that byte on; all before it stands in logical order."""
        found = self.index
        file, position = self._file, -1
        for number in logical(found.parents).order:
            offset, size = found.offsets[number], found.sizes[number]
            if offset < begin or number in found.doubled:
                continue
            if size > wire.LONGEST:
                yield too_long(offset, size, found.lines.get(number, 0))
                continue
            if offset != position:
                file.seek(offset)
            raw = file.read(size)
            position = offset + size
            try:
                yield Piece(offset, raw, decode(raw))
            except (ValueError, RecursionError):
                ended = raw if position >= self.size or raw.endswith(b"\n") else raw + b"\n"
                yield from odd(ended, offset, found.lines.get(number, 0))
