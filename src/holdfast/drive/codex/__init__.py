"""Codex by `codex exec --json`."""

from holdfast.drive.codex.driver import CodexDriver

__all__ = ["CodexDriver"]
