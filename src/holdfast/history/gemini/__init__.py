"""Gemini CLI: its mutation logs below `~/.gemini/tmp/<project>/chats`."""

from holdfast.history.gemini.reader import GeminiReader

__all__ = ["GeminiReader"]
