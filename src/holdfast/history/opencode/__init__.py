"""OpenCode's sessions: one SQLite database for all projects."""

from holdfast.history.opencode.reader import OpenCodeReader

__all__ = ["OpenCodeReader"]
