"""Claude Code over stream-json both ways."""

from holdfast.drive.claude.driver import ClaudeDriver

__all__ = ["ClaudeDriver"]
