"""Processes known by what an agent put into their environment."""

from __future__ import annotations

import os

from holdfast.process import tree


def marked(name: str, value: str) -> list[int]:
    """The living processes, but this one, that were started with that variable."""
    return sorted(
        pid for pid, told in tree.marks(tree.table(), name).items() if told == value and pid != os.getpid()
    )
