"""The times in agents' own stores, in the one form of `clock`."""

from __future__ import annotations

import re
from typing import Any

from holdfast import clock

_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?\s*(?:(Z)|([+-])(\d\d):?(\d\d))?", re.ASCII
)
_LATEST = 253402300800  # the year 10000


def stamp(value: Any) -> str | None:
    """An ISO 8601 text (without a zone it is UTC) in the one form; None if it is no such thing."""
    if isinstance(value, str) and len(value) == 24 and value[23] == "Z":  # nearly always
        told = f"{value[:23]}000Z"
        if clock.is_stamp(told):
            return told
    found = _ISO.fullmatch(value.strip()) if isinstance(value, str) and len(value) < 64 else None
    if found is None:
        return None
    day, time, fraction, _, sign, hours, minutes = found.groups()
    told = f"{day}T{time}.{(fraction or '')[:6]:0<6}Z"
    if not clock.is_stamp(told):
        return None
    if sign is None:
        return told
    shift = (int(hours) * 60 + int(minutes)) * 60
    return of_seconds(clock.parse(told) + (shift if sign == "-" else -shift))


def of_seconds(value: Any) -> str | None:
    """Seconds since 1970 in the one form; None if that is no time."""
    if type(value) not in (int, float) or not 0 <= value < _LATEST:
        return None
    return clock.stamp(value)


def of_millis(value: Any) -> str | None:
    """Milliseconds since 1970 in the one form; None if that is no time."""
    return of_seconds(value / 1000) if type(value) in (int, float) and abs(value) < _LATEST * 1000 else None
