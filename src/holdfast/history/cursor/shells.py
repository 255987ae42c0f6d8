"""The shells in which Cursor runs commands, also when it is gone."""

from __future__ import annotations

import os

from holdfast.process import tree

# In the command line of the shell of every call (SDK 1.1.0), which does not tell the command itself. The
# shell leads a session of its own: it outlives a SIGKILL of the SDK's bridge and of all its group.
_MARK = "__cursor_command"


def left(table: tree.Table, cwd: str) -> list[int]:
    """The shells that work in that folder, and what they started."""
    shells = [p for p in table.values() if _MARK in p.command and p.pid != os.getpid() and _is_in(p.pid, cwd)]
    return [p.pid for p in [*shells, *tree.below(table, shells)]]


def _is_in(pid: int, cwd: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == os.path.realpath(cwd)
    except OSError:  # gone, another user's, or a system that does not tell
        return False
