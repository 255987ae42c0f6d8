"""Answers that were dear to find, and are as good as new for a moment."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

T = TypeVar("T")

KEPT = 1000


class Recent(Generic[T]):
    """Values by name, each for some seconds and only while its mark is the same."""

    def __init__(self, fresh_s: float, kept: int = KEPT):
        self._fresh_s = fresh_s
        self._most = kept
        self._kept: dict[str, tuple[object, float, T]] = {}

    def get(self, name: str, mark: object = None) -> T | None:
        """The value, if it is still good."""
        if name not in self._kept:
            return None
        seen, at, value = self._kept[name]
        return value if seen == mark and time.monotonic() - at < self._fresh_s else None

    def forget(self) -> None:
        """None of them is good any more."""
        self._kept.clear()

    def keep(self, name: str, value: T, mark: object = None) -> T:
        """Remember one."""
        if len(self._kept) >= self._most:
            self._kept.clear()
        self._kept[name] = (mark, time.monotonic(), value)
        return value
