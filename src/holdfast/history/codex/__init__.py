"""Codex: its rollouts, of all dialects, below `$CODEX_HOME/sessions`."""

from holdfast.history.codex.reader import CodexReader

__all__ = ["CodexReader"]
