"""Waiting for something to become true, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT_S = 60.0  # an agent needs up to 5 s to start; a busy machine several times that


def until(look: Callable[[], T | None], what: str, limit_s: float = LIMIT_S, every_s: float = 0.02) -> T:
    """The first true thing that `look` gives; TimeoutError names what did not happen."""
    end = time.monotonic() + limit_s
    while True:
        if found := look():
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"in {limit_s:g} s it did not happen that {what}")
        time.sleep(every_s)
