"""What all of a transcript has to be read for: where each piece is, what it follows, which calls ended."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.history.claude.pieces import Piece
from holdfast.history.claude.record import Head, Record, blocks


class Index(NamedTuple):
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


def index(pieces: Iterable[Piece]) -> Index:
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
    return Index(names, offsets, sizes, parents, frozenset(doubled), lines, frozenset(results))


def _results(record: Record | Head) -> list[int]:
    """The hashes of the calls that it ends."""
    if isinstance(record, Head):
        content = record.message.content if record.message is not None else None
        calls = [block.tool_use_id for block in content] if isinstance(content, list) else []
        return [hash(call) for call in calls if call is not None]
    found = (block.get("tool_use_id") for block in blocks(record))
    return [hash(call) for call in found if isinstance(call, str)]
