"""Names we give: sessions and tasks, short enough to type by their beginning, safe as file names."""

from __future__ import annotations

import os
import re

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o, u: nothing to misread
_RANDOM_LETTERS = 15  # 75 bits

SESSION = "s"
TASK = "t"

_BEGINNING = re.compile(rf"[{_ALPHABET}]{{0,{_RANDOM_LETTERS}}}\Z")
_SHAPE = re.compile(rf"[st][{_ALPHABET}]{{{_RANDOM_LETTERS}}}\Z")


def new(kind: str) -> str:
    """A fresh id of that kind."""
    return kind + _letters(os.urandom(10))


def derived(kind: str, *parts: str) -> str:
    """The one id of that kind that belongs to these texts: the same for the same ones."""
    from hashlib import sha256

    told = "".join(f"{len(part)}:{part}" for part in parts)
    return kind + _letters(sha256(told.encode(errors="surrogatepass")).digest()[:10])


def _letters(random: bytes) -> str:
    number = int.from_bytes(random, "big")
    letters = []
    for _ in range(_RANDOM_LETTERS):
        letters.append(_ALPHABET[number & 31])
        number >>= 5
    return "".join(letters)


def is_id(text: str, kind: str) -> bool:
    """Whether `text` is a whole id of that kind, and so safe to be a file name."""
    return text[:1] == kind and _SHAPE.match(text) is not None


def is_beginning(text: str, kind: str) -> bool:
    """Whether an id of that kind can begin so; none of its letters means anything in a pattern."""
    return text[:1] == kind and _BEGINNING.match(text, 1) is not None
