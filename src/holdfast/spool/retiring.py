"""Putting a task's folder out of the way of its next launch."""

from __future__ import annotations

import itertools
import os
import shutil

from holdfast.spool.folder import Spool


def retired(spool: Spool) -> int:
    """How many launches of the task came to nothing before."""
    return next(n for n in itertools.count() if not os.path.exists(_name(spool, n + 1)))


def retire(spool: Spool) -> None:
    """Keep the folder of an agent that never took its prompt under another name."""
    os.rename(spool.path, _name(spool, retired(spool) + 1))


def discard(spool: Spool) -> None:
    """Remove a folder whose launch was prevented: nothing ever ran in it."""
    shutil.rmtree(spool.path)


def task_of(folder: str) -> str:
    """The task that a folder of this name is or was of."""
    return folder.partition("~")[0]


def _name(spool: Spool, number: int) -> str:
    return f"{spool.path}~{number}"
