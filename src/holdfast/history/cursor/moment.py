"""The times in Cursor's stores, in our one form."""

from __future__ import annotations

from typing import Any

from holdfast.history import when


def of(value: Any) -> str | None:
    """A time as ISO text or milliseconds since 1970; None if it is neither."""
    return when.stamp(value) if isinstance(value, str) else when.of_millis(value)
