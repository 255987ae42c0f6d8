"""Claude Code's own store: one JSONL transcript a session, 1.0 to 2.1.325."""

from holdfast.history.claude.reader import ClaudeReader

__all__ = ["ClaudeReader"]
