"""A few records that are not written in their logical order, put into it without a look at all the rest."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.history.claude.index import Index
from holdfast.history.claude.order import logical
from holdfast.history.claude.pieces import Piece
from holdfast.history.claude.record import parent

WINDOW = 4096  # uuids that are remembered at least
NEAR = 256  # pieces after which a parent is not near any more
NEAR_BYTES = 4 << 20


class Seen:
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


class Stretch:
    """The pieces from one on whose parent was not seen."""

    def __init__(self, first: Piece):
        """Only that one yet."""
        self.pieces = [first]
        self.wanted: set[str] = set()  # parents that were not found
        self._names: dict[str, int] = {}

    def find(self, pieces: Iterator[Piece], seen: Seen, index: Index | None) -> bool:
        """Read on until every parent is there that stands behind its child; False if that takes too long.

        Without an index each may.
        """
        size = 0
        piece: Piece | None = self.pieces[0]
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

    def in_order(self, seen: Seen) -> Iterator[Piece]:
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
