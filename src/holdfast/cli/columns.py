"""Fit a table to a width: wrap cells at the ends of words, never inside one that fits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

GAP = 2  # between columns
# A cell may be wrapped behind these: keys and paths are long, and have no spaces.
_PIECES = re.compile(r"[^\s:/_.,;=-]*[:/_.,;=-]+|[^\s:/_.,;=-]+|\s+")


def fitted(rows: Sequence[Sequence[str]], width: int, drop: Sequence[int] = ()) -> Iterator[str]:
    """The lines of a table, none wider than `width`; `drop`: columns to leave out first if it is narrow."""
    kept = list(range(len(rows[0])))
    for column in drop:
        if sum(_narrowest(rows, kept)) + GAP * (len(kept) - 1) <= width:
            break
        kept.remove(column)
    table = [[row[column] for column in kept] for row in rows]
    widths = _widths(table, width - GAP * (len(kept) - 1))
    for row in table:
        cells = [wrap(cell, size) for cell, size in zip(row, widths, strict=True)]
        for number in range(max(map(len, cells))):
            parts = [cell[number] if number < len(cell) else "" for cell in cells]
            line = "".join(p.ljust(s + GAP) for p, s in zip(parts, widths, strict=True))
            yield line.rstrip()


def wrap(text: str, width: int) -> list[str]:
    """The lines of a cell; a piece that is wider than the cell is the only thing that is broken."""
    lines, line = [], ""
    for piece in _PIECES.findall(text):
        if len(line) + len(piece.rstrip()) > width:
            lines.append(line)
            line = ""
        if not line:
            piece = piece.lstrip()
        while len(piece) > width:
            lines.append(piece[:width])
            piece = piece[width:]
        line += piece
    lines.append(line)
    return [line.rstrip() for line in lines if line.strip()] or [""]


def _narrowest(rows: Sequence[Sequence[str]], kept: Sequence[int]) -> list[int]:
    """The least width of each column that breaks no piece."""
    return [max(_longest_piece(row[column]) for row in rows) for column in kept]


def _longest_piece(text: str) -> int:
    return max((len(piece) for piece in _PIECES.findall(text)), default=0)


def _widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """A width for each column: at first the least, then the room that is left, a little to each in turn."""
    columns = range(len(rows[0]))
    wanted = [max(len(row[column]) for row in rows) for column in columns]
    widths = _narrowest(rows, columns)
    while sum(widths) > room:  # something has to be broken: the widest column gives way
        widest = max(columns, key=lambda column: widths[column])
        if widths[widest] <= 1:
            break
        widths[widest] -= 1
    while sum(widths) < room and (short := [c for c in columns if widths[c] < wanted[c]]):
        widths[min(short, key=lambda column: widths[column])] += 1
    return widths
