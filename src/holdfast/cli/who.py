"""Who is at the keyboard."""

from __future__ import annotations


def who() -> str:
    """The person at the keyboard."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
