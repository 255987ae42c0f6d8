"""How is a transcript file read in logical order, with little more in memory than one record?"""

from __future__ import annotations

import io
import os
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import cached_property
from itertools import chain
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import msgspec

from holdfast.agents.claude.logical_order import logical_order
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

# How a record of the conversation begins, so that a whole record after a torn one is found, but no block
# inside it. The list is short because a damaged line is searched for each entry.
STARTS = (
    b'{"parentUuid"',
    b'{"logicalParentUuid"',
    *(b'{"type":"%s"' % name.encode() for name in sorted(CHAIN)),
)

_PART = 1 << 20


class TranscriptPiece(msgspec.Struct, gc=False):
    """A record, or bytes that are not a record."""

    offset: int
    raw: bytes
    record: ClaudeRecord | None
    odd: jsonl.JsonlLine | None = None  # set if it is not a record, or if the record was glued to something


def read(file: BinaryIO, size: int, decode: Callable[[bytes], Any] = decode) -> Iterator[TranscriptPiece]:
    """Yield the pieces of a file from its first byte; none that begins at `size` or later.

    With the head decoder, a normal line yields only the head fields.
    """
    offset = number = 0
    readline = file.readline
    longest = jsonl.LONGEST + 1
    while offset < size and (raw := readline(longest)):
        try:
            yield TranscriptPiece(offset, raw, decode(raw))
        except (ValueError, RecursionError):
            if len(raw) == longest and not raw.endswith(b"\n"):
                length = longest + _skip(file)
                yield too_long(offset, length, number)
                offset += length - longest
            else:
                yield from unusual_pieces(raw, offset, number)
        offset += len(raw)
        number += 1


def unusual_pieces(raw: bytes, offset: int, number: int) -> Iterator[TranscriptPiece]:
    """Yield the pieces of a line that is not exactly one normal record."""
    for line in jsonl.read(io.BytesIO(raw), STARTS, offset):
        part = raw[line.offset - offset :][: line.size]
        numbered = msgspec.structs.replace(line, number=number)
        if line.value is None:
            yield TranscriptPiece(line.offset, part, None, numbered)
        else:
            yield TranscriptPiece(
                line.offset, part, lenient(line.value), None if line.problem is None else numbered
            )


def too_long(offset: int, size: int, number: int) -> TranscriptPiece:
    """A line that is too long for any event; it is not read."""
    notice = jsonl.notice_event(jsonl.BAD, f"a line of {size:,} bytes is too long to read", bytes=size)
    line = jsonl.JsonlLine(number=number, offset=offset, size=size, problem=jsonl.BAD, odd=notice)
    return TranscriptPiece(offset, b"", None, line)


def _skip(file: BinaryIO) -> int:
    """Skip the rest of a line and return its size."""
    size = 0
    while part := file.readline(_PART):
        size += len(part)
        if part.endswith(b"\n"):
            break
    return size


# --- The index: where each piece is, what it follows, which calls ended


class TranscriptIndex(NamedTuple):
    """Small facts about every piece, by its number."""

    names: dict[int, int]  # uuid hash -> number; the uuid itself would take five times the memory
    offsets: array[int]
    sizes: array[int]
    parents: array[int]  # numbers; -1: none
    doubled: frozenset[int]  # records that are duplicates
    lines: dict[int, int]  # piece -> line number, for pieces that are not records
    results: frozenset[int]  # hashes of the calls that have a result

    def is_behind(self, one: str, other: str) -> bool:
        """Whether the record with one uuid exists and comes after the record with the other."""
        return self.names.get(hash(one), -1) > self.names.get(hash(other), -1)

    def is_first(self, uuid: str, offset: int) -> bool:
        """Whether the record with this uuid appears first at this offset."""
        number = self.names.get(hash(uuid))
        return number is None or self.offsets[number] == offset


def build_index(pieces: Iterable[TranscriptPiece]) -> TranscriptIndex:
    """Build the index of all pieces."""
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
    """The hashes of the calls that a record ends."""
    if isinstance(record, ClaudeRecordHead):
        content = record.message.content if record.message is not None else None
        calls = [block.tool_use_id for block in content] if isinstance(content, list) else []
        return [hash(call) for call in calls if call is not None]
    ids = (block.get("tool_use_id") for block in blocks(record))
    return [hash(call) for call in ids if isinstance(call, str)]


# --- A few records out of order, sorted without an index of the whole file

WINDOW = 4096  # how many uuids are remembered at least
NEAR = 256  # pieces after which a parent is no longer near
NEAR_BYTES = 4 << 20


class RecentUuids:
    """The uuids of the latest records."""

    def __init__(self) -> None:
        """Start without uuids."""
        self.young: set[str] = set()
        self.old: set[str] = set()

    def __contains__(self, uuid: str) -> bool:
        return uuid in self.young or uuid in self.old

    def add(self, uuid: str) -> bool:
        """Remember a uuid; False if it is already remembered."""
        if uuid in self.young or uuid in self.old:
            return False
        self.young.add(uuid)
        if len(self.young) > WINDOW:
            self.old, self.young = self.young, set()
        return True


class UnorderedStretch:
    """The pieces that start with one whose parent is not known yet."""

    def __init__(self, first: TranscriptPiece):
        """Start with the first piece."""
        self.pieces = [first]
        self.wanted: set[str] = set()  # parents that are still missing
        self._names: dict[str, int] = {}

    def find(
        self, pieces: Iterator[TranscriptPiece], recent: RecentUuids, index: TranscriptIndex | None
    ) -> bool:
        """Read on until every later parent is found; False if that takes too long.

        Without an index any missing parent may come later.
        """
        size = 0
        piece: TranscriptPiece | None = self.pieces[0]
        while piece is not None:
            record = piece.record
            if record is not None and record.uuid is not None:
                self._names.setdefault(record.uuid, len(self.pieces) - 1)
                self.wanted.discard(record.uuid)
                above = parent(record)
                near = above is None or above in recent or above in self._names
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

    def in_order(self, recent: RecentUuids) -> Iterator[TranscriptPiece]:
        """All of them, parents first."""
        parents = []
        for piece in self.pieces:
            above = parent(piece.record) if piece.record is not None else None
            known = above is None or above in recent
            parents.append(-1 if known or above is None else self._names.get(above, -1))
        for number in logical_order(parents).order:
            piece = self.pieces[number]
            uuid = piece.record.uuid if piece.record is not None else None
            if uuid is None or (self._names[uuid] == number and recent.add(uuid)):
                yield piece


# --- The file


class ClaudeTranscript:
    """One file as it was when it was opened; what a live agent adds later is not read."""

    def __init__(self, path: str):
        """Open the file; the caller handles OSError."""
        self._path = path
        self._file = open(path, "rb")  # noqa: SIM115
        self.size = os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> ClaudeTranscript:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._file.close()

    @cached_property
    def index(self) -> TranscriptIndex:
        """Built once, when first needed."""
        with open(self._path, "rb") as file:
            return build_index(read(file, self.size, decode_head))

    def answered(self, call: str) -> bool:
        """Whether the file holds a result for this call."""
        return hash(call) in self.index.results

    def record(self, offset: int) -> ClaudeRecord | None:
        """The record that begins at this offset, if a store would accept it."""
        self._file.seek(offset)
        raw = self._file.readline(jsonl.LONGEST)
        values = (line.value for line in jsonl.read(io.BytesIO(raw), STARTS) if line.value is not None)
        value = next(values, None)
        return None if value is None else lenient(value)

    def pieces(self) -> Iterator[TranscriptPiece]:
        """The pieces in file order."""
        self._file.seek(0)
        return read(self._file, self.size)

    def in_order(self) -> Iterator[TranscriptPiece]:
        """The pieces in logical order, each record once.

        A file is nearly always in that order except for a few records, and is then read once from start to
        end.
        """
        recent = RecentUuids()
        pieces: Iterator[TranscriptPiece] | None = self.pieces()
        while pieces is not None:
            pieces = yield from self._ordered(pieces, recent)

    def _ordered(
        self, pieces: Iterator[TranscriptPiece], recent: RecentUuids
    ) -> Generator[TranscriptPiece, None, Iterator[TranscriptPiece] | None]:
        """Yield in one pass as far as possible; return the pieces that are left, if any."""
        for piece in pieces:
            if (record := piece.record) is not None and (uuid := record.uuid) is not None:
                above = record.parent_uuid or record.logical_parent_uuid
                if above is not None and above not in recent.young and above not in recent.old:
                    indexed = "index" in self.__dict__
                    if not indexed or self.index.is_behind(above, uuid):
                        return (yield from self._near(piece, uuid, pieces, recent))
                    # Otherwise the parent is far back, or missing.
                    if not self.index.is_first(uuid, piece.offset):
                        continue
                if not recent.add(uuid):
                    continue
            yield piece
        return None

    def _near(
        self, first: TranscriptPiece, uuid: str, pieces: Iterator[TranscriptPiece], recent: RecentUuids
    ) -> Generator[TranscriptPiece, None, Iterator[TranscriptPiece] | None]:
        """Continue from a record whose parent may come after it."""
        known = self.index if "index" in self.__dict__ else None
        stretch = UnorderedStretch(first)
        if stretch.find(pieces, recent, known):
            yield from stretch.in_order(recent)
            return pieces
        if any(self.index.is_behind(wanted, uuid) for wanted in stretch.wanted):
            yield from self._rest(first.offset)
            return None
        return chain(stretch.pieces, pieces)  # again, now with an index

    def _rest(self, begin: int) -> Iterator[TranscriptPiece]:
        """Everything from this byte on; all before it is in logical order."""
        index = self.index
        file, position = self._file, -1
        for number in logical_order(index.parents).order:
            offset, size = index.offsets[number], index.sizes[number]
            if offset < begin or number in index.doubled:
                continue
            if size > jsonl.LONGEST:
                yield too_long(offset, size, index.lines.get(number, 0))
                continue
            if offset != position:
                file.seek(offset)
            raw = file.read(size)
            position = offset + size
            try:
                yield TranscriptPiece(offset, raw, decode(raw))
            except (ValueError, RecursionError):
                ended = raw if position >= self.size or raw.endswith(b"\n") else raw + b"\n"
                yield from unusual_pieces(ended, offset, index.lines.get(number, 0))
