"""A transcript file: its records in logical order, with little more in memory than the one that is read."""

from __future__ import annotations

import heapq
import io
import os
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import msgspec

from holdfast.agents.claude.records import (
    CHAIN,
    ClaudeRecord,
    ClaudeRecordHead,
    blocks,
    decode,
    decode_head,
    lenient,
    parent,
)
from holdfast.transcripts import jsonl
from holdfast.transcripts import jsonl as wire

# How a record of the conversation begins, so that a whole one is found behind a torn one, and no block
# inside it. Few, because each is looked for in all of a bad line.
STARTS = (
    b'{"parentUuid"',
    b'{"logicalParentUuid"',
    *(b'{"type":"%s"' % name.encode() for name in sorted(CHAIN)),
)

_PART = 1 << 20


class TranscriptPiece(msgspec.Struct, gc=False):
    """A record, or something that is none."""

    offset: int
    raw: bytes
    record: ClaudeRecord | None
    odd: jsonl.JsonlLine | None = None  # where it is no record, or is one that was glued to something


def read(file: BinaryIO, size: int, decode: Callable[[bytes], Any] = decode) -> Iterator[TranscriptPiece]:
    """The pieces of a file from its first byte; none that begins at `size` or later.

    With the decoder of heads these are all that a usual line gives.
    """
    offset = number = 0
    readline = file.readline
    longest = wire.LONGEST + 1
    while offset < size and (raw := readline(longest)):
        try:
            yield TranscriptPiece(offset, raw, decode(raw))
        except (ValueError, RecursionError):
            if len(raw) == longest and not raw.endswith(b"\n"):
                length = longest + _skip(file)
                yield too_long(offset, length, number)
                offset += length - longest
            else:
                yield from odd(raw, offset, number)
        offset += len(raw)
        number += 1


def odd(raw: bytes, offset: int, number: int) -> Iterator[TranscriptPiece]:
    """The pieces of a line that is not one record of the usual kind."""
    for line in jsonl.read(io.BytesIO(raw), STARTS, offset):
        part = raw[line.offset - offset :][: line.size]
        told = msgspec.structs.replace(line, number=number)
        if line.value is None:
            yield TranscriptPiece(line.offset, part, None, told)
        else:
            yield TranscriptPiece(
                line.offset, part, lenient(line.value), None if line.problem is None else told
            )


def too_long(offset: int, size: int, number: int) -> TranscriptPiece:
    """A line that no event could hold, and that is not read."""
    said = wire.notice_event(jsonl.BAD, f"a line of {size:,} bytes is too long to be read", bytes=size)
    line = jsonl.JsonlLine(number=number, offset=offset, size=size, problem=jsonl.BAD, odd=said)
    return TranscriptPiece(offset, b"", None, line)


def _skip(file: BinaryIO) -> int:
    """Past the rest of a line; how many bytes that were."""
    size = 0
    while part := file.readline(_PART):
        size += len(part)
        if part.endswith(b"\n"):
            break
    return size


# --- What all of a transcript has to be read for: where each piece is, what it follows, which calls ended.


class TranscriptIndex(NamedTuple):
    """Small facts of every piece, by its number."""

    names: dict[int, int]  # numbers by the hash of a uuid, which itself would take five times the room
    offsets: array[int]
    sizes: array[int]
    parents: array[int]  # numbers; -1: none
    doubled: frozenset[int]  # records that are there once more
    lines: dict[int, int]  # the line numbers of what is no record
    results: frozenset[int]  # the hashes of the calls that have one

    def is_behind(self, one: str, other: str) -> bool:
        """Whether the record of one uuid is there, and stands behind that of the other."""
        return self.names.get(hash(one), -1) > self.names.get(hash(other), -1)

    def is_first(self, uuid: str, offset: int) -> bool:
        """Whether that byte is where the record of that uuid stands first."""
        number = self.names.get(hash(uuid))
        return number is None or self.offsets[number] == offset


def index(pieces: Iterable[TranscriptPiece]) -> TranscriptIndex:
    """Read them all."""
    offsets, sizes, parents = array("q"), array("q"), array("q")
    names: dict[int, int] = {}
    doubled: set[int] = set()
    results: set[int] = set()
    lines: dict[int, int] = {}
    for number, piece in enumerate(pieces):
        record, above = piece.record, 0
        if record is not None:
            uuid = record.uuid
            if uuid is not None:
                name = hash(uuid)
                if name in names:
                    doubled.add(number)
                else:
                    names[name] = number
                    over = record.parent_uuid or record.logical_parent_uuid
                    above = (hash(over) or 1) if over is not None else 0
            if record.message is not None and type(record.message.content) is list:
                results.update(_results(record))
        if piece.odd is not None:
            lines[number] = piece.odd.number
        offsets.append(piece.offset)
        sizes.append(len(piece.raw) if piece.odd is None else piece.odd.size)
        parents.append(above)
    for number, above in enumerate(parents):
        parents[number] = names.get(above, -1) if above else -1
    return TranscriptIndex(names, offsets, sizes, parents, frozenset(doubled), lines, frozenset(results))


def _results(record: ClaudeRecord | ClaudeRecordHead) -> list[int]:
    """The hashes of the calls that it ends."""
    if isinstance(record, ClaudeRecordHead):
        content = record.message.content if record.message is not None else None
        calls = [block.tool_use_id for block in content] if isinstance(content, list) else []
        return [hash(call) for call in calls if call is not None]
    found = (block.get("tool_use_id") for block in blocks(record))
    return [hash(call) for call in found if isinstance(call, str)]


# --- The logical order of records that are not written in it: each behind its parent, else as in the file.


class LogicalOrder(NamedTuple):
    """The numbers of all records in their logical order, and those whose parent had to be left out."""

    order: array[int]
    cut: list[int]  # one of each cycle


def logical(parents: Sequence[int]) -> LogicalOrder:
    """Order records by the numbers of their parents (-1: none); a parent may come later, or never in a cycle.

    With `--bare`, a CLI writes replies before the prompt that they follow.
    """
    placed = bytearray(len(parents))
    order: array[int] = array("q")
    cut: list[int] = []
    waiting: dict[int, list[int]] = {}  # by parent: the children that came before it was placed
    above: dict[int, int] = {}  # of what waits: something above it that waits too, else itself
    for number, above_it in enumerate(parents):
        free = number
        if above_it >= 0 and not placed[above_it]:
            waiting.setdefault(above_it, []).append(number)
            free = _top(above, above_it) if above_it in above else number
            if parents[free] != number:  # else it waits for itself
                above[number] = free
                for child in waiting.get(number, ()):
                    above[child] = free
                continue
            waiting[number].remove(free)
            cut.append(free)
        ready = [free]
        while ready:
            now = heapq.heappop(ready)
            placed[now] = 1
            order.append(now)
            above.pop(now, None)
            for child in waiting.pop(now, ()):
                heapq.heappush(ready, child)
    return LogicalOrder(order, cut)


def _top(above: dict[int, int], number: int) -> int:
    top = number
    while above[top] != top:
        top = above[top]
    while above[number] != top:  # so that the next walk is short
        above[number], number = top, above[number]
    return top


# --- A few records that are not written in their logical order, put into it without a look at all the rest.

WINDOW = 4096  # uuids that are remembered at least
NEAR = 256  # pieces after which a parent is not near any more
NEAR_BYTES = 4 << 20


class RecentUuids:
    """The uuids of the latest records."""

    def __init__(self) -> None:
        """None yet."""
        self.young: set[str] = set()
        self.old: set[str] = set()

    def __contains__(self, uuid: str) -> bool:
        return uuid in self.young or uuid in self.old

    def add(self, uuid: str) -> bool:
        """Remember it; False if it is among those remembered."""
        if uuid in self.young or uuid in self.old:
            return False
        self.young.add(uuid)
        if len(self.young) > WINDOW:
            self.old, self.young = self.young, set()
        return True


class UnorderedStretch:
    """The pieces from one on whose parent was not seen."""

    def __init__(self, first: TranscriptPiece):
        """Only that one yet."""
        self.pieces = [first]
        self.wanted: set[str] = set()  # parents that were not found
        self._names: dict[str, int] = {}

    def find(
        self, pieces: Iterator[TranscriptPiece], seen: RecentUuids, index: TranscriptIndex | None
    ) -> bool:
        """Read on until every parent is there that stands behind its child; False if that takes too long.

        Without an index each may.
        """
        size = 0
        piece: TranscriptPiece | None = self.pieces[0]
        while piece is not None:
            record = piece.record
            if record is not None and record.uuid is not None:
                self._names.setdefault(record.uuid, len(self.pieces) - 1)
                self.wanted.discard(record.uuid)
                above = parent(record)
                near = above is None or above in seen or above in self._names
                if above is not None and not near and (not index or index.is_behind(above, record.uuid)):
                    self.wanted.add(above)
            if not self.wanted:
                return True
            size += len(piece.raw)
            if len(self.pieces) >= NEAR or size > NEAR_BYTES:
                return False
            piece = next(pieces, None)
            if piece is not None:
                self.pieces.append(piece)
        return False

    def in_order(self, seen: RecentUuids) -> Iterator[TranscriptPiece]:
        """All of them, parents first."""
        parents = []
        for piece in self.pieces:
            above = parent(piece.record) if piece.record is not None else None
            known = above is None or above in seen
            parents.append(-1 if known or above is None else self._names.get(above, -1))
        for number in logical(parents).order:
            piece = self.pieces[number]
            uuid = piece.record.uuid if piece.record is not None else None
            if uuid is None or (self._names[uuid] == number and seen.add(uuid)):
                yield piece


# --- A transcript file: its records in logical order, with little more in memory than the one that is read.


class ClaudeTranscript:
    """One file as it was when it was opened; what a live agent adds meanwhile is not read."""

    def __init__(self, path: str):
        """Open it; FileNotFoundError and its like are the caller's."""
        self._path = path
        self._file = open(path, "rb")  # noqa: SIM115
        self.size = os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> ClaudeTranscript:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._file.close()

    @cached_property
    def index(self) -> TranscriptIndex:
        """Read once for all that asks for it."""
        with open(self._path, "rb") as file:
            return index(read(file, self.size, decode_head))

    def answered(self, call: str) -> bool:
        """Whether a result for that call is anywhere in it."""
        return hash(call) in self.index.results

    def record(self, offset: int) -> ClaudeRecord | None:
        """The record that begins there, if a store would take it."""
        self._file.seek(offset)
        raw = self._file.readline(wire.LONGEST)
        values = (line.value for line in jsonl.read(io.BytesIO(raw), STARTS) if line.value is not None)
        value = next(values, None)
        return None if value is None else lenient(value)

    def pieces(self) -> Iterator[TranscriptPiece]:
        """The pieces as they are written."""
        self._file.seek(0)
        return read(self._file, self.size)

    def in_order(self) -> Iterator[TranscriptPiece]:
        """The pieces in logical order, a record that is there twice only once.

        A file is nearly always written in that order, but for a few records here and there, and is then
        read once from its beginning to its end.
        """
        seen = RecentUuids()
        pieces: Iterator[TranscriptPiece] | None = self.pieces()
        while pieces is not None:
            pieces = yield from self._ordered(pieces, seen)

    def _ordered(
        self, pieces: Iterator[TranscriptPiece], seen: RecentUuids
    ) -> Generator[TranscriptPiece, None, Iterator[TranscriptPiece] | None]:
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
        self, first: TranscriptPiece, uuid: str, pieces: Iterator[TranscriptPiece], seen: RecentUuids
    ) -> Generator[TranscriptPiece, None, Iterator[TranscriptPiece] | None]:
        """From a record on whose parent may stand behind it."""
        known = self.index if "index" in self.__dict__ else None
        stretch = UnorderedStretch(first)
        if stretch.find(pieces, seen, known):
            yield from stretch.in_order(seen)
            return pieces
        if any(self.index.is_behind(wanted, uuid) for wanted in stretch.wanted):
            yield from self._rest(first.offset)
            return None
        return chain(stretch.pieces, pieces)  # once more, now that there is an index

    def _rest(self, begin: int) -> Iterator[TranscriptPiece]:
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
                yield TranscriptPiece(offset, raw, decode(raw))
            except (ValueError, RecursionError):
                ended = raw if position >= self.size or raw.endswith(b"\n") else raw + b"\n"
                yield from odd(ended, offset, found.lines.get(number, 0))
