"""Sessions of Kimi Code and of the older kimi-cli."""

from holdfast.history.kimi.reader import KimiReader

__all__ = ["KimiReader"]
