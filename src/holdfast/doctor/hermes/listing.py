"""What the web UI's index lists, read piece by piece: with ten thousand sessions it is a big file."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from holdfast.history.hermes import files, values
from holdfast.history.hermes.layout import INDEX, Layout

PIECE = 1 << 16
_SPACE = " \t\r\n"

_scan = json.JSONDecoder().raw_decode


def entries(layout: Layout) -> Iterator[Any]:
    """What it lists, one by one; ValueError where it cannot be read, OSError if it is no file for us."""
    assert layout.folder is not None
    with files.opened(os.path.join(layout.folder, INDEX)) as file:
        yield from _items(_Text(file))


def ids(layout: Layout) -> Iterator[str]:
    """The sessions that it lists; ValueError and OSError as above."""
    for item in entries(layout):
        if isinstance(item, dict) and (own := values.word(item.get("session_id"))):
            yield own


def whole(layout: Layout) -> list[Any]:
    """All of it, to be written anew; empty if it cannot be read."""
    try:
        return list(entries(layout))
    except (OSError, ValueError):
        return []


class _Text:
    """A file's text, of which only what is not yet read is held."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._piece = PIECE
        self.left = ""

    def more(self) -> bool:
        """Read on; whether there was more."""
        data = self._file.read(self._piece)
        self._piece *= 2  # one value may be long: not to be tried again for every piece of it
        self.left += self._decoder.decode(data, final=not data)
        return bool(data)

    def sign(self) -> str:
        """The next character that is no space; empty at the end."""
        while not (rest := self.left.lstrip(_SPACE)) and self.more():
            pass
        self.left = rest or self.left.lstrip(_SPACE)
        return self.left[:1]

    def value(self) -> Any:
        """The next value, which is followed by something."""
        while True:
            try:
                value, end = _scan(self.left)
                if end < len(self.left):
                    self.left, self._piece = self.left[end:], PIECE
                    return value
            except RecursionError:
                raise ValueError("nested too deep") from None
            except ValueError:
                pass
            if not self.more():
                raise ValueError("no whole value")


def _items(text: _Text) -> Iterator[Any]:
    if text.sign() != "[":
        raise ValueError("no list")
    text.left = text.left[1:]
    if text.sign() == "]":
        text.left = text.left[1:]
    else:
        while True:
            text.sign()
            yield text.value()
            sign = text.sign()
            text.left = text.left[1:]
            if sign == "]":
                break
            if sign != ",":
                raise ValueError("no list")
    if text.sign():
        raise ValueError("something behind the list")
